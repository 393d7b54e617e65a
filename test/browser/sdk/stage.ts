import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { type Config, testConfig } from "../../../src/kernel/config/index.ts";
import type { Permissions } from "../../../src/protocol/room-records.ts";
import { type RunningServer, start } from "../../../src/server.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { launchBrowser } from "../media/harness.ts";

export type Credentials = { endpoint: string; token: string };

/** A server, a site on another origin that uses the SDK, and a browser with a camera that is not there. */
export type Stage = {
  /** The backend of the site: an API key. */
  stoa: Stoa;
  site: string;
  config: Config;
  /** A page of the site; `errors` collects what its console reports. */
  page(): Promise<Page & { errors: string[] }>;
  rtc(roomId: string, identity: string, permissions?: Partial<Permissions>): Promise<Credentials>;
  chat(userId: string): Promise<Credentials>;
  /** Stops the server without a word and starts it again on the same port and data. */
  restart(): Promise<void>;
  close(): Promise<void>;
};

const EVERYTHING = { publish: true, publishData: true };
const ROOT = join(import.meta.dir, "../../..");

export async function openStage(overrides: Partial<Config> = {}): Promise<Stage> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-stage-"));
  let config = testConfig({ DATA_DIR: dataDir, SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1000, ...overrides });
  let server: RunningServer = await start(config);
  // The same port after a restart, as a client that reconnects expects.
  config = { ...config, PORT: Number(new URL(server.url).port) };
  const apiKey = await projectKey(server);
  const site = await serveSite();
  const browser = await launchBrowser();
  const stoa = new Stoa({ url: server.url, apiKey });

  return {
    stoa,
    config,
    site: site.url.origin,
    async page() {
      const context = await browser.newContext({ permissions: ["camera", "microphone"] });
      const page = Object.assign(await context.newPage(), { errors: [] as string[] });
      page.on("pageerror", (error) => page.errors.push(error.message));
      await page.goto(site.url.origin);
      return page;
    },
    rtc: (roomId, participantIdentity, permissions = EVERYTHING) =>
      stoa.rtcTokens.mint(roomId, { participantIdentity, permissions, ttlSeconds: 3600 }),
    chat: (userId) => stoa.chatTokens.mint({ userId }),
    async restart() {
      await server.stop("restart", 0);
      server = await start(config);
    },
    async close() {
      await browser.close();
      await site.stop(true);
      await server.stop("test over", 0);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function projectKey({ runtime, services }: RunningServer): Promise<string> {
  const owner = await services.accounts.createOperator({
    email: "o@example.com",
    password: "a long password",
    name: "O",
  });
  return runtime.write(() => {
    const { id } = services.projects.create(owner.id, { name: "stage" });
    return services.apiKeys.create(id, { name: "stage", environment: "DEVELOPMENT" }).key;
  });
}

async function serveSite() {
  const built = await Bun.build({ entrypoints: [join(ROOT, "web/sdk/index.ts")], target: "browser", format: "esm" });
  const sdk = await built.outputs[0]?.text();
  const html = "<!doctype html><title>site</title><body></body>";
  return Bun.serve({
    port: 0,
    hostname: "localhost",
    fetch: ({ url }) =>
      new URL(url).pathname === "/sdk.js"
        ? new Response(sdk, { headers: { "content-type": "text/javascript" } })
        : new Response(html, { headers: { "content-type": "text/html" } }),
  });
}
