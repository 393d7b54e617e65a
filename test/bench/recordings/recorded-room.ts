/** A server on a machine of its own, and browsers on another: what they send on the way to it can be lost. */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import type { Recording, RecordingFile } from "../../../src/protocol/recordings.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { FROM_SOURCE, startStoa } from "../../cli/stoa.ts";
import { openFirefox } from "../../e2e/sdk/firefox.ts";
import type { Scripted } from "../../e2e/sdk/scripted.ts";
import { serveSite } from "../../e2e/sdk/stage.ts";
import { CHROMIUM } from "../../harness/browsers.ts";
import { keyPath, prepareData } from "../../ops/served.ts";
import { run } from "../harness/cache.ts";
import { ON_SERVER_SIDE, SERVER_ADDRESS } from "../harness/own-network.ts";
import { listen } from "./told.ts";

export const BROWSERS = ["Chromium", "Firefox"] as const;
export type BrowserName = (typeof BROWSERS)[number];

/** A client that sends gets nothing of the others: a browser that decodes eight videos encodes none in time. */
const permissions = { publish: true, subscribe: false };
const MEDIA = ["--media-udp-port", "7001", "--media-workers", "1", "--public-ip", SERVER_ADDRESS];
const LIMITS = ["--signaling-max-connections-per-window", "1000", "--webhook-allow-private", "true"];

export type RecordedRooms = Awaited<ReturnType<typeof openRecordedRooms>>;

/** Within the bench's own network. */
export async function openRecordedRooms() {
  const folder = mkdtempSync(join(tmpdir(), "stoa-bench-matrix-"));
  const dataDir = join(folder, "data");
  await prepareData(dataDir);
  const serve = [...ON_SERVER_SIDE, ...FROM_SOURCE, "serve", "--host", SERVER_ADDRESS, "--data-dir", dataDir];
  const { url, child } = await startStoa([...serve, ...MEDIA, ...LIMITS]);
  const site = await serveSite();
  const stoa = new Stoa({ url, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
  const told = await listen(stoa);

  return {
    stoa,
    told,

    /**
     * Drops this percentage of media packets in each direction at their receiver. A client that drops packets where they are sent
     * tells its sender, and Firefox takes a packet that cannot be sent for the end of the path.
     */
    async lose(percent: number): Promise<void> {
      const rule = `meta l4proto udp numgen random mod 100 < ${percent} drop`;
      const chain = `add chain inet bench input { type filter hook input priority 0; }; add rule inet bench input ${rule};`;
      const rules = `add table inet bench; delete table inet bench; add table inet bench; ${chain}`;
      for (const side of [[], ON_SERVER_SIDE]) await run([...side, "nft", rules], "/");
    },

    async openBrowser(name: BrowserName): Promise<{ page(): Promise<Scripted>; close(): Promise<void> }> {
      if (name === "Firefox") {
        const firefox = await openFirefox();
        return { page: () => firefox.page(site.url.origin), close: () => firefox.close() };
      }
      const browser = await chromium.launch(CHROMIUM);
      const page = async (): Promise<Scripted> => {
        const opened = await (await browser.newContext()).newPage();
        await opened.goto(site.url.origin);
        return opened;
      };
      return { page, close: () => browser.close() };
    },

    ticket: (roomId: string, participantIdentity: string) =>
      stoa.rtcTokens.mint(roomId, { participantIdentity, permissions }),

    /** Downloads it as a file of this machine. */
    async download({ id }: Recording, file: RecordingFile): Promise<string> {
      const { url: address } = await stoa.recordings.downloadUrl(id, file.id);
      const path = join(folder, `${file.id}.${file.mimeType.split("/")[1]}`);
      writeFileSync(path, new Uint8Array(await (await fetch(address)).arrayBuffer()));
      return path;
    },

    async close(): Promise<void> {
      child.kill("SIGKILL");
      await child.exited;
      told.close();
      await site.stop(true);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
