// suite: soak
// runs: alone
// browser: windows
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { ON_DEMAND } from "../../../bin/on-demand.ts";
import { checkoutOf } from "../../cluster/checkout.ts";
import { openChromium } from "../../harness/browsers.ts";
import { until } from "../../nodes/remote/until.ts";
import { Upgradable } from "../../ops/upgradable.ts";
import { type Firefox, type FirefoxPage, openFirefox } from "./firefox.ts";
import { joinChat, joinRoom, receivesAudio, waitForFrames, waitForLine } from "./page-api.ts";
import type { Scripted } from "./scripted.ts";
import type { Credentials } from "./stage.ts";

const ROOT = join(import.meta.dir, "../../..");
const PERMISSIONS = { publish: true, subscribe: true, publishData: true };

/** The SDK asks for no video that is out of sight, so that all have to fit. */
const HTML = `<!doctype html><title>site</title><style>video { width: 240px !important; height: 135px !important }</style>`;

const host = new Upgradable();
const other = checkoutOf("0.3.0");
let site: Bun.Server<undefined>;
let firefox: Firefox;
const pages: Page[] = [];

/** The other version serves an SDK of its own. */
async function buildSdk(root: string, version: string): Promise<void> {
  const folder = join(root, "dist/web");
  rmSync(folder);
  cpSync(join(ROOT, "dist/web"), folder, { recursive: true });
  await Bun.build({
    entrypoints: [join(root, "web/sdk/index.ts")],
    outdir: folder,
    naming: "sdk.js",
    target: "browser",
    format: "esm",
    minify: true,
    plugins: [ON_DEMAND],
    define: { STOA_VERSION: JSON.stringify(version) },
  });
}

beforeAll(async () => {
  await Promise.all([host.prepare(), buildSdk(other.root, "0.3.0")]);
  await host.start();
  // A page gets the SDK, and later what the SDK loads when it needs it, from the process that serves then.
  site = Bun.serve({
    port: 0,
    hostname: "localhost",
    fetch: ({ url }) =>
      new URL(url).pathname.endsWith(".js")
        ? fetch(host.server.url + new URL(url).pathname, { headers: { "accept-encoding": "identity" } })
        : new Response(HTML, { headers: { "content-type": "text/html" } }),
  });
  firefox = await openFirefox();
}, 300_000);
afterAll(async () => {
  for (const page of pages) await page.context().close();
  await firefox?.close();
  await site?.stop(true);
  await host.end();
  host.remove();
  other.remove();
});

async function openInChromium(): Promise<Scripted> {
  const browser = await openChromium();
  const context = await browser.newContext({ permissions: ["camera", "microphone"] });
  const page = await context.newPage();
  pages.push(page);
  await page.goto(site.url.href);
  return page;
}
const openInFirefox = (): Promise<FirefoxPage> => firefox.page(site.url.href);

type Visitor = { page: Scripted; identity: string };

async function enter(page: Scripted, identity: string, roomId: string, chat: string): Promise<Visitor> {
  const { call } = host.server;
  const rtc = { participantIdentity: identity, permissions: PERMISSIONS };
  const tokens = await Promise.all([
    call("POST", `/v1/rooms/${roomId}/rtc-tokens`, rtc),
    call("POST", "/v1/chat/tokens", { userId: identity }),
  ]);
  const [rtcToken, chatToken] = tokens.map(({ body }) => body as Credentials);
  await joinRoom(page, rtcToken as Credentials, ["camera", "microphone"], 360);
  await joinChat(page, chatToken as Credentials, chat);
  return { page, identity };
}

const versionOf = ({ page }: Visitor) => page.evaluate(() => window.sdk.VERSION, undefined);
const linesOf = ({ page }: Visitor) => page.evaluate(() => window.seen.splice(0), undefined);

/** Each receives the camera of every other one, and sound. */
async function meet(visitors: readonly Visitor[]): Promise<void> {
  for (const { page, identity } of visitors) {
    for (const { identity: from } of visitors)
      if (from !== identity) await waitForFrames(page, `${from}-camera`, 15, 60_000);
    await receivesAudio(page, 60_000);
  }
}

async function exchange(from: Visitor, to: Visitor, text: string): Promise<void> {
  await from.page.evaluate(async (text) => {
    await window.room.sendData(text, { topic: "greeting" });
    await window.conversation.send(text);
  }, text);
  await waitForLine(to.page, `data ${from.identity} greeting ${text.length}`);
  await to.page.waitForFunction((text) => window.heard.includes(text), text, { timeout: 60_000 });
}

test("pages with the SDK of either version meet, in Chromium and in Firefox, in a room that stays with the earlier process", async () => {
  const { call } = host.server;
  const { id: roomId } = (await call("POST", "/v1/rooms", { name: "kept" })).body;
  const identities = ["anna", "fritz", "bela", "frieda"];
  const chat = await host.server.conversation("kept", ...identities);
  const anna = await enter(await openInChromium(), "anna", roomId, chat);
  const fritz = await enter(await openInFirefox(), "fritz", roomId, chat);
  const before = [anna, fritz];
  await meet(before);
  await exchange(anna, fritz, "before");
  for (const one of before) await linesOf(one);

  const older = host.note().pid;
  const program = process.env.OTHER_STOA ?? other.program;
  expect(await host.upgrade("--binary", program)).toMatchObject({ code: 0, err: "" });
  for (const { page } of before)
    await page.waitForFunction((name) => window.room.serverName === name, `local.${older}`, { timeout: 60_000 });
  await meet(before);
  for (const one of before) expect(await linesOf(one)).toEqual([]);

  const bela = await enter(await openInChromium(), "bela", roomId, chat);
  const frieda = await enter(await openInFirefox(), "frieda", roomId, chat);
  const all = [...before, bela, frieda];
  const versions = await Promise.all(all.map(versionOf));
  expect(versions[0]).toBe(versions[1] as string);
  expect(versions[2]).toBe(versions[3] as string);
  expect(versions[2]).not.toBe(versions[0] as string);
  const { body: room } = await call("GET", `/v1/rooms/${roomId}`);
  expect(room).toMatchObject({ serverName: `local.${older}`, participantCount: 4 });
  await meet(all);
  await exchange(anna, frieda, "from the earlier");
  await exchange(bela, fritz, "from the later one");
  await anna.page.evaluate(async () => {
    const { localParticipant } = window.room;
    const microphone = localParticipant.track("microphone");
    if (microphone) await localParticipant.mute(microphone);
  }, undefined);
  for (const other of [fritz, bela, frieda]) await waitForLine(other.page, "muted anna microphone");
  await frieda.page.evaluate(() => window.room.localParticipant.disableCamera(), undefined);
  for (const { page } of [anna, fritz, bela])
    await page.waitForFunction(() => document.getElementById("frieda-camera") === null, undefined);

  for (const { page } of all)
    await page.evaluate(async () => {
      await window.room.close();
      document.body.replaceChildren();
    }, undefined);
  expect(await host.server.child.exited).toBe(0);

  // A page that was there before the upgrade opens the next room on the later version.
  const { id: freshId } = (await call("POST", "/v1/rooms", { name: "fresh" })).body;
  const fresh = [
    await enter(anna.page, "anna", freshId, chat),
    await enter(fritz.page, "fritz", freshId, chat),
    await enter(bela.page, "bela", freshId, chat),
  ];
  await until(async () => (await call("GET", `/v1/rooms/${freshId}`)).body.participantCount === 3);
  expect((await call("GET", `/v1/rooms/${freshId}`)).body.serverName).toBe("local");
  await meet(fresh);
  for (const one of [...all, ...fresh]) {
    const errors = await one.page.evaluate(() => window.seen.filter((line) => line.startsWith("error")), undefined);
    expect(errors).toEqual([]);
  }
}, 600_000);
