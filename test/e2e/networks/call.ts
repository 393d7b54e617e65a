/** A call on machines of its own: a publisher with a good network, and viewers behind a link that can be made bad. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { Stoa } from "../../../web/sdk/server.ts";
import { PROGRAM, startStoa } from "../../cli/stoa.ts";
import { CHROMIUM } from "../../harness/browsers.ts";
import { type Machine, openLan } from "../../harness/namespaces.ts";
import { keyPath, prepareData } from "../../ops/served.ts";
import type { Scripted } from "../sdk/scripted.ts";
import { serveSite } from "../sdk/stage.ts";
import { type Link, openLink } from "./link.ts";
import { prepareClouds, prepareSeats, publishClouds, type Seen, watchRoom } from "./page.ts";

export type NetworkCall = {
  link: Link;
  /** Joins as a new participant, behind the link; resolves when it is told to join. */
  watch(): Promise<Viewer>;
  close(): Promise<void>;
};
export type Viewer = { seen(): Promise<Seen>; close(): Promise<void> };

/** A media server on a machine, and how pages take part in a room of it. */
export type Host = {
  /** The page, on a machine at this address, has clouds to send. */
  publish(page: Page, address: string): Promise<void>;
  /** The page has seats for what it gets. */
  watch(page: Scripted, address: string): Promise<void>;
  stop(): Promise<void>;
};
export type StartHost = (machine: Machine, folder: string, link: Link) => Promise<Host>;

const MEDIA_PORT = "7001";

/** Further conditions before anything starts, and how the browsers are started. */
type Surroundings = {
  prepare?(machines: Record<"server" | "publisher" | "viewer", Machine>, driver: string): Promise<void>;
  browserArgs?: string[];
  /** Another browser than Chromium for who watches. */
  viewers?: (machine: Machine, folder: string, site: URL) => Promise<Watching>;
};
/** Each page is a new participant. */
export type Watching = {
  page(url: string): Promise<{ page: Scripted; close(): Promise<void> }>;
  close(): Promise<void>;
};

export async function openNetworkCall(
  startHost: StartHost = startStoaHost,
  { prepare, browserArgs = [], viewers }: Surroundings = {},
): Promise<NetworkCall> {
  const work = mkdtempSync(join(tmpdir(), "stoa-networks-"));
  const lan = await openLan("server", "publisher", "viewer");
  const { server, publisher, viewer } = lan.machines;
  await prepare?.(lan.machines, lan.address);
  const site = await serveSite(lan.address);
  const link = await openLink(server, viewer);
  const host = await startHost(server, work, link);
  const browsers: Browser[] = [];
  const launch = async (machine: Machine) => {
    const args = [...CHROMIUM.args, `--unsafely-treat-insecure-origin-as-secure=${site.url.origin}`, ...browserArgs];
    const executablePath = machine.wrapper(CHROMIUM.executablePath, work);
    const browser = await chromium.launch({ ...CHROMIUM, executablePath, args });
    browsers.push(browser);
    return browser;
  };
  const sending = await launch(publisher);
  const watching = viewers ? await viewers(viewer, work, site.url) : chromiumWatching(await launch(viewer));
  const stage = await pageOf(sending, site.url.origin);
  await stage.evaluate(prepareClouds);
  await host.publish(stage, publisher.address);
  return {
    link,
    async watch() {
      const { page, close } = await watching.page(site.url.origin);
      await page.evaluate(prepareSeats, undefined);
      await host.watch(page, viewer.address);
      return {
        seen: () => page.evaluate(() => window.watched(), undefined),
        close,
      };
    },
    async close() {
      await watching.close();
      for (const browser of browsers) await browser.close();
      await host.stop();
      await link.close();
      await site.stop(true);
      await lan.close();
      rmSync(work, { recursive: true, force: true });
    },
  };
}

async function pageOf(browser: Browser, url: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(url);
  return page;
}

/** Closed with the other browsers. */
function chromiumWatching(browser: Browser): Watching {
  return {
    async page(url) {
      const page = await pageOf(browser, url);
      return { page, close: () => page.context().close() };
    },
    async close() {},
  };
}

async function startStoaHost(machine: Machine, folder: string): Promise<Host> {
  const dataDir = join(folder, "data");
  await prepareData(dataDir);
  const media = ["--media-udp-port", MEDIA_PORT, "--media-workers", "1", "--public-ip", machine.address];
  const command = [...machine.prefix, ...PROGRAM, "serve", "--host", machine.address, "--data-dir", dataDir];
  const { url, child } = await startStoa([...command, ...media, "--signaling-max-connections-per-window", "1000"]);
  const stoa = new Stoa({ url, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
  const { id: roomId } = await stoa.rooms.create({ name: "networks" });
  const mint = (participantIdentity: string) =>
    stoa.rtcTokens.mint(roomId, { participantIdentity, permissions: { publish: true } });
  let viewers = 0;
  return {
    publish: async (page) => page.evaluate(publishClouds, await mint("publisher")),
    watch: async (page) => page.evaluate(watchRoom, await mint(`viewer-${viewers++}`)),
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}
