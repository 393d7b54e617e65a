/** A call on machines of its own: a publisher with a good network, and viewers behind a link that can be made bad. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { Stoa } from "../../web/sdk/server.ts";
import { CHROMIUM } from "../browser/media/harness.ts";
import { serveSite } from "../browser/sdk/stage.ts";
import { FROM_SOURCE, startStoa } from "../cli/stoa.ts";
import { openLan } from "../harness/namespaces.ts";
import { keyPath, prepareData } from "../ops/served.ts";
import { type Link, openLink } from "./link.ts";
import { publishClouds, type Seen, startWatching } from "./page.ts";

export type NetworkCall = {
  link: Link;
  /** Joins as somebody new, behind the link; resolves when it is told to join. */
  watch(): Promise<Viewer>;
  close(): Promise<void>;
};
export type Viewer = { seen(): Promise<Seen>; close(): Promise<void> };

const MEDIA_PORT = "7001";

export async function openNetworkCall(): Promise<NetworkCall> {
  const work = mkdtempSync(join(tmpdir(), "stoa-networks-"));
  const lan = await openLan("server", "publisher", "viewer");
  const { server, publisher, viewer } = lan.machines;
  const site = await serveSite(lan.address);
  const dataDir = join(work, "data");
  await prepareData(dataDir);
  const media = ["--media-udp-port", MEDIA_PORT, "--media-workers", "1", "--public-ip", server.address];
  const command = [...server.prefix, ...FROM_SOURCE, "serve", "--host", server.address, "--data-dir", dataDir];
  const { url, child } = await startStoa([...command, ...media, "--signaling-max-connections-per-window", "1000"]);
  const stoa = new Stoa({ url, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
  const link = await openLink(server, viewer);
  const browsers: Browser[] = [];
  const launch = async (machine: typeof viewer) => {
    const args = [...CHROMIUM.args, `--unsafely-treat-insecure-origin-as-secure=${site.url.origin}`];
    const executablePath = machine.wrapper(CHROMIUM.executablePath, work);
    const browser = await chromium.launch({ ...CHROMIUM, executablePath, args });
    browsers.push(browser);
    return browser;
  };
  const [sending, watching] = [await launch(publisher), await launch(viewer)];
  const pageOf = async (browser: Browser): Promise<Page> => {
    const page = await (await browser.newContext()).newPage();
    await page.goto(site.url.origin);
    return page;
  };
  const { id: roomId } = await stoa.rooms.create({ name: "networks" });
  const mint = (participantIdentity: string) =>
    stoa.rtcTokens.mint(roomId, { participantIdentity, permissions: { publish: true } });
  await (await pageOf(sending)).evaluate(publishClouds, await mint("publisher"));
  let viewers = 0;
  return {
    link,
    async watch() {
      const page = await pageOf(watching);
      await page.evaluate(startWatching, await mint(`viewer-${viewers++}`));
      return {
        seen: () => page.evaluate(() => window.watched()),
        close: () => page.context().close(),
      };
    },
    async close() {
      for (const browser of browsers) await browser.close();
      child.kill("SIGKILL");
      await child.exited;
      await link.close();
      await site.stop(true);
      await lan.close();
      rmSync(work, { recursive: true, force: true });
    },
  };
}
