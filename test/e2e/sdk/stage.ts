import { join } from "node:path";
import type { Page } from "playwright-core";
import type { Permissions } from "../../../src/protocol/room-records.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { openChromium, THREE_CAMERAS } from "../../harness/browsers.ts";
import { type Network, openNetwork } from "./network.ts";
import { type ServerProcess, startServer } from "./server-process.ts";

export type Credentials = { endpoint: string; token: string };
/** The token's lifetime and the network of its endpoint. */
type TokenOptions = { ttlSeconds?: number; network?: Network };
export type SitePage = Page & { errors: string[] };

/** A server, a site on another origin that uses the SDK, and a browser with fake devices. */
export type Stage = {
  /** The backend of the site, which is not affected by the simulated network. */
  stoa: Stoa;
  server: ServerProcess;
  /** The network between the pages and the server. */
  network: Network;
  /** Opens another network for pages with their own failures. */
  openNetwork(): Promise<Network>;
  siteUrl: string;
  /** Opens a page of the site; `errors` collects its errors. */
  page(permissions?: string[]): Promise<SitePage>;
  rtc(roomId: string, identity: string, permissions?: Partial<Permissions>, way?: TokenOptions): Promise<Credentials>;
  chat(userId: string, way?: TokenOptions): Promise<Credentials>;
  close(): Promise<void>;
};

const ALL_PERMISSIONS = { publish: true, publishData: true, updateMetadata: true };
const ROOT = join(import.meta.dir, "../../..");

/** The tests make many short calls from one address. */
const GENEROUS = { SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1000, CHAT_CONNECTION_RATE_LIMIT: 1000 };

export async function openStage(settings: Record<string, string | number> = {}): Promise<Stage> {
  const [server, site, browser] = await Promise.all([
    startServer({ ...GENEROUS, ...settings }),
    serveSite(),
    openChromium(THREE_CAMERAS),
  ]);
  const serverPort = Number(new URL(server.url).port);
  const networks = [await openNetwork(serverPort)] as [Network, ...Network[]];
  const [network] = networks;
  const stoa = new Stoa({ url: server.url, apiKey: server.apiKey });
  // Tokens are minted directly, but their endpoint is on the simulated network.
  const through = ({ endpoint, token }: Credentials, { port }: Network): Credentials => {
    const url = new URL(endpoint);
    url.port = String(port);
    return { endpoint: url.href, token };
  };

  return {
    stoa,
    server,
    network,
    async openNetwork() {
      const another = await openNetwork(serverPort);
      networks.push(another);
      return another;
    },
    siteUrl: site.url.origin,
    async page(permissions = ["camera", "microphone"]) {
      const context = await browser.newContext({ permissions });
      const page = Object.assign(await context.newPage(), { errors: [] as string[] });
      page.setDefaultTimeout(60_000);
      page.on("pageerror", (error) => page.errors.push(error.message));
      await page.goto(site.url.origin);
      return page;
    },
    rtc: async (roomId, participantIdentity, permissions = ALL_PERMISSIONS, { ttlSeconds = 3600, network: by } = {}) =>
      through(await stoa.rtcTokens.mint(roomId, { participantIdentity, permissions, ttlSeconds }), by ?? network),
    chat: async (userId, { ttlSeconds, network: by } = {}) =>
      through(await stoa.chatTokens.mint({ userId, ttlSeconds }), by ?? network),
    async close() {
      await browser.close();
      for (const one of networks) one.close();
      await Promise.all([site.stop(true), server.close()]);
    },
  };
}

/** Serves the SDK and `scripts` by path; on localhost unless the browser is on another machine. */
export async function serveSite(hostname = "localhost", scripts: Record<string, string> = {}) {
  const built = await Bun.build({ entrypoints: [join(ROOT, "web/sdk/index.ts")], target: "browser", format: "esm" });
  const sdk = await built.outputs[0]?.text();
  const html = "<!doctype html><title>site</title><body></body>";
  return Bun.serve({
    port: 0,
    hostname,
    fetch({ url }) {
      const { pathname } = new URL(url);
      const script = pathname === "/sdk.js" ? sdk : scripts[pathname];
      return script === undefined
        ? new Response(html, { headers: { "content-type": "text/html" } })
        : new Response(script, { headers: { "content-type": "text/javascript" } });
    },
  });
}
