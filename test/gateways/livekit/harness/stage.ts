import { join } from "node:path";
import { RoomConfiguration, type TrackSource } from "@livekit/protocol";
import type { Browser, Page } from "playwright-core";
import type { Config } from "../../../../src/kernel/config/index.ts";
import { Stoa } from "../../../../web/sdk/server.ts";
import type { Firefox } from "../../../e2e/sdk/firefox.ts";
import { joinRoom } from "../../../e2e/sdk/page-api.ts";
import type { Scripted } from "../../../e2e/sdk/scripted.ts";
import { serveSite } from "../../../e2e/sdk/stage.ts";
import { openChromium } from "../../../harness/browsers.ts";
import { type RealServer, realServer } from "../../../harness/real-server.ts";
import { livekitPackages } from "./packages.ts";

export const WAIT_MS = 60_000;

export type BrowserName = "Chromium" | "Firefox";
export type LivekitPackage = "livekit-client" | "livekit-client-two-connections";

type Grant = Record<string, boolean | string | string[] | TrackSource[]>;

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into field by field, and a wrong one fails the test
type Anything = any;

/** The parts of `livekit-server-sdk` that are used here. */
type ServerSdk = {
  AccessToken: new (
    key: string,
    secret: string,
    options: object,
  ) => { addGrant(grant: Grant): void; roomConfig?: Anything; kind?: string; toJwt(): Promise<string> };
  RoomServiceClient: new (url: string, key: string, secret: string) => Anything;
  AgentDispatchClient: new (url: string, key: string, secret: string) => Anything;
};

type TokenOptions = {
  kind?: string;
  grant?: Grant;
  name?: string;
  metadata?: string;
  attributes?: Record<string, string>;
  /** Another key than the stage's, with its secret. */
  key?: string;
  secret?: string;
  roomConfig?: object;
  ttl?: number | string;
};

export type Stage = Awaited<ReturnType<typeof openStage>>;
export type StageBeside = Awaited<ReturnType<typeof stageBeside>>;

/** A server's address and API key, and LiveKit's packages for signing. */
export type ServerFacts = { url: string; apiKey: string; livekit: { apiKey: string; apiSecret: string } };

/** A server as it is shipped, a key with its signing secret, and LiveKit's own packages beside it. */
export async function openStage(overrides: Partial<Config> = {}, ...chromiumFlags: string[]) {
  const server: RealServer = await realServer({
    SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000,
    MEDIA_WORKERS: 1,
    ...overrides,
  });
  const { apiKeys } = server.services;
  const { key, publicId, id } = await server.runtime.write((unit) =>
    apiKeys.create(unit, server.projectId, { name: "livekit", environment: "DEVELOPMENT" }),
  );
  const livekit = { apiKey: publicId, apiSecret: apiKeys.signingSecret(publicId) };
  const stage = await stageBeside({ url: server.url, apiKey: key, livekit }, { chromiumFlags });
  return {
    ...stage,
    server,
    keyId: id,
    async close() {
      await stage.close();
      await server.close();
    },
  };
}

const html = (script: string | null) => `<!doctype html><meta charset=utf-8><title>stage</title><body>
${script === null ? "" : `<script src="/packages/${script}/dist/livekit-client.umd.js"></script>`}`;

type BrowserOptions = {
  /** Runs in every page before anything else. */
  firstOfAll?: () => void;
  chromiumFlags?: readonly string[];
};

/** LiveKit's own packages, pages with them, and a browser beside a server that runs already. */
export async function stageBeside(
  { url, apiKey: key, livekit }: ServerFacts,
  { firstOfAll = () => {}, chromiumFlags = [] }: BrowserOptions = {},
) {
  const packages = await livekitPackages();
  const sdk = (await import(join(packages, "livekit-server-sdk"))) as ServerSdk;
  const { apiKey, apiSecret } = livekit;
  const pages = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const { pathname, searchParams } = new URL(request.url);
      if (pathname.startsWith("/packages/")) return new Response(Bun.file(join(packages, pathname.slice(10))));
      if (pathname !== "/") return new Response("no such page", { status: 404 });
      return new Response(html(searchParams.get("package")), { headers: { "content-type": "text/html" } });
    },
  });
  const pagesUrl = `http://127.0.0.1:${pages.port}`;
  const addressOf = (script: LivekitPackage) => `${pagesUrl}/?package=${script}`;
  const site = await serveSite();
  let browser: Browser | null = null;

  const stoa = new Stoa({ url, apiKey: key });

  /** An empty page of Chromium. */
  async function open(address: string): Promise<Page> {
    browser ??= await openChromium(...chromiumFlags);
    const context = await browser.newContext({ permissions: ["camera", "microphone"] });
    await context.addInitScript(firstOfAll);
    const page = await context.newPage();
    page.setDefaultTimeout(WAIT_MS);
    await page.goto(address);
    return page;
  }

  /** A page with a package of LiveKit's in it, or with our own SDK. */
  const page = (script: LivekitPackage | "stoa") => open(script === "stoa" ? site.url.href : addressOf(script));

  return {
    packages,
    apiKey,
    apiSecret,
    wsUrl: url.replace(/^http/, "ws"),
    pagesUrl,
    addressOf,
    open,
    stoa,
    rooms: new sdk.RoomServiceClient(url, apiKey, apiSecret),
    dispatches: new sdk.AgentDispatchClient(url, apiKey, apiSecret),

    token(room: string, identity: string, options: TokenOptions = {}): Promise<string> {
      const { grant, key = apiKey, secret = apiSecret, roomConfig, kind, ...rest } = options;
      const token = new sdk.AccessToken(key, secret, { identity, ...rest });
      if (kind) token.kind = kind;
      if (roomConfig) token.roomConfig = new RoomConfiguration(roomConfig);
      token.addGrant({ roomJoin: true, room, canUpdateOwnMetadata: true, ...grant });
      return token.toJwt();
    },

    page,

    /** A participant of our own SDK in the room of that name. */
    async withStoa(room: string, identity: string): Promise<Page> {
      const found = (await stoa.rooms.list()).find(({ name }) => name === room);
      const { id } = found ?? (await stoa.rooms.create({ name: room }));
      const permissions = { publish: true, publishData: true, updateMetadata: true };
      const token = await stoa.rtcTokens.mint(id, { participantIdentity: identity, permissions, name: "Own" });
      const own = await page("stoa");
      await joinRoom(own, token, ["camera", "microphone"], 360);
      return own;
    },

    async close() {
      await browser?.close();
      for (const each of [pages, site]) void each.stop(true);
    },
  };
}

export type OpenPage = { page: Scripted; close(): Promise<void> };

/** A page with a package of LiveKit's, in either browser. */
export async function openPage(
  stage: Stage,
  firefox: Firefox,
  browser: BrowserName,
  script: LivekitPackage,
): Promise<OpenPage> {
  if (browser === "Firefox") {
    const page = await firefox.page(stage.addressOf(script));
    return { page, close: () => page.close() };
  }
  const page = await stage.page(script);
  return { page, close: () => page.context().close() };
}
