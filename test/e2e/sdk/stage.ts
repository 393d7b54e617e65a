import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import type { Permissions } from "../../../src/protocol/room-records.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { CHROMIUM } from "../media/harness.ts";
import { type Network, openNetwork } from "./network.ts";
import { type ServerProcess, startServer } from "./server-process.ts";

export type Credentials = { endpoint: string; token: string };
/** How long a token lives, and through which network it leads. */
type Way = { ttlSeconds?: number; network?: Network };
export type SitePage = Page & { errors: string[] };

/** A server, a site on another origin that uses the SDK, and a browser with a camera that is not there. */
export type Stage = {
  /** The backend of the site: an API key, and no network trouble. */
  stoa: Stoa;
  server: ServerProcess;
  /** Between the pages and the server. */
  network: Network;
  /** Another one, for those whose trouble is theirs alone. */
  openNetwork(): Promise<Network>;
  siteUrl: string;
  /** A page of the site; `errors` collects what it throws. */
  page(permissions?: string[]): Promise<SitePage>;
  rtc(roomId: string, identity: string, permissions?: Partial<Permissions>, way?: Way): Promise<Credentials>;
  chat(userId: string, way?: Way): Promise<Credentials>;
  close(): Promise<void>;
};

const EVERYTHING = { publish: true, publishData: true, updateMetadata: true };
const ROOT = join(import.meta.dir, "../../..");

/** Three, because the second delivers depth pictures, which no codec takes. */
const CAMERAS = "--use-fake-device-for-media-stream=device-count=3";

/** Many short calls come from one address here; no visitor does that. */
const GENEROUS = { SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1000, CHAT_CONNECTION_RATE_LIMIT: 1000 };

export async function openStage(settings: Record<string, string | number> = {}): Promise<Stage> {
  const [server, site, browser] = await Promise.all([
    startServer({ ...GENEROUS, ...settings }),
    serveSite(),
    chromium.launch({ ...CHROMIUM, args: [...CHROMIUM.args, CAMERAS] }),
  ]);
  const serverPort = Number(new URL(server.url).port);
  const networks = [await openNetwork(serverPort)] as [Network, ...Network[]];
  const [network] = networks;
  const stoa = new Stoa({ url: server.url, apiKey: server.apiKey });
  // Tokens are minted past the network, and lead through it.
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
    rtc: async (roomId, participantIdentity, permissions = EVERYTHING, { ttlSeconds = 3600, network: by } = {}) =>
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

/** On localhost, unless the browser is on another machine; `scripts` by their paths, beside the SDK. */
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
