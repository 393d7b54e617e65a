import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { type Connection, Stoa } from "../../web/sdk/server.ts";
import { PROGRAM, startStoa } from "../cli/stoa.ts";
import { joinRoom, receivesAudio, waitForFrames } from "../e2e/sdk/page-api.ts";
import { serveSite } from "../e2e/sdk/stage.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { type Lan, openLan } from "../harness/namespaces.ts";
import { startCoturn } from "./coturn.ts";
import { program } from "./machine.ts";
import { keyPath, prepareData } from "./served.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-blocked-"));
const MEDIA_PORT = 7001;
const TURN_PORT = 3478;
const TURN_SECRET = "a secret of two";
let lan: Lan<"client" | "server" | "turn">;
let site: Bun.Server<undefined>;
let browser: Browser;
const children: Bun.Subprocess[] = [];

beforeAll(async () => {
  await program("chromium");
  lan = await openLan("client", "server", "turn");
  const { client } = lan.machines;
  // No datagram leaves the machine, neither to the media port nor to the TURN server.
  await client.keepIn("meta l4proto udp drop");
  site = await serveSite(lan.address);
  const origin = site.url.origin;
  browser = await chromium.launch({
    ...CHROMIUM,
    executablePath: client.wrapper(CHROMIUM.executablePath, work),
    // A camera needs https, or an origin that is trusted without it.
    args: [...CHROMIUM.args, `--unsafely-treat-insecure-origin-as-secure=${origin}`],
  });
}, 120_000);

afterAll(async () => {
  await browser?.close();
  for (const child of children) {
    child.kill("SIGKILL");
    await child.exited;
  }
  await site?.stop(true);
  await lan?.close();
  rmSync(work, { recursive: true, force: true });
});

async function serve(name: string, ...args: string[]): Promise<Stoa> {
  const dataDir = join(work, name);
  await prepareData(dataDir);
  const { prefix, address } = lan.machines.server;
  const media = ["--media-udp-port", String(MEDIA_PORT), "--media-workers", "1", "--public-ip", address];
  const command = [...prefix, ...PROGRAM, "serve", "--host", address, "--data-dir", dataDir, ...media, ...args];
  const { url, child } = await startStoa(command);
  children.push(child);
  return new Stoa({ url, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
}

/** Two pages on the client's machine that see and hear each other. */
async function call(stoa: Stoa): Promise<{ roomId: string; pages: Page[]; iceServers: unknown }> {
  const room = await stoa.rooms.create({ name: "blocked" });
  const mint = (participantIdentity: string) =>
    stoa.rtcTokens.mint(room.id, { participantIdentity, permissions: { publish: true } });
  const [forAnna, forBen] = [await mint("anna"), await mint("ben")];
  const context = await browser.newContext({ permissions: ["camera", "microphone"] });
  const pages = await Promise.all([context.newPage(), context.newPage()]);
  const [anna, ben] = pages;
  for (const page of pages) await page.goto(site.url.origin);
  await joinRoom(anna, forAnna, ["camera", "microphone"], 180);
  await joinRoom(ben, forBen, ["camera", "microphone"], 180);
  await Promise.all([
    waitForFrames(anna, "ben-camera"),
    waitForFrames(ben, "anna-camera"),
    receivesAudio(anna),
    receivesAudio(ben),
  ]);
  return { roomId: room.id, pages, iceServers: forAnna.iceServers };
}

type Told = Connection & { events: { type: string; source: string; data: Record<string, unknown> | null }[] };

/** The media path of each connection's record, as the server saw it and as the client reports it. */
async function pathsTold(stoa: Stoa, roomId: string) {
  for (;;) {
    const list: Connection[] = await stoa.connections.list({ roomId });
    const records = await Promise.all(list.map(async ({ id }) => ((await stoa.connections.get(id)) as Told).events));
    const told = records.map((events) => ({
      server: events.find(({ type, source }) => type === "connected" && source === "server")?.data,
      client: events.find(({ source, data }) => source === "client" && data?.path !== undefined)?.data?.path,
    }));
    if (told.length === 2 && told.every(({ server, client }) => server && client)) return told;
    await Bun.sleep(200);
  }
}

const pathShown = (page: Page) => page.evaluate(async () => (await window.room.getStats())?.path);

test("[11] where UDP is blocked, ICE over TCP on the media port carries the call, and the record shows it", async () => {
  const stoa = await serve("tcp");
  const { roomId, pages } = await call(stoa);
  for (const page of pages) expect(await pathShown(page)).toBe("tcp");
  for (const { server, client } of await pathsTold(stoa, roomId)) {
    expect(client).toBe("tcp");
    expect(server).toMatchObject({
      transport: "tcp",
      remoteAddress: expect.stringContaining(lan.machines.client.address),
    });
  }
  await Promise.all(pages.map((page) => page.close()));
  for (const child of children.splice(0)) {
    child.kill("SIGTERM");
    await child.exited;
  }
}, 90_000);

test("[11] where the media port is unreachable, coturn relays the call with credentials that expire", async () => {
  const { client, server, turn } = lan.machines;
  await server.refuse(`ip saddr ${client.address} tcp dport ${MEDIA_PORT} drop`);
  const coturn = await startCoturn({ ...turn, port: TURN_PORT, secret: TURN_SECRET, folder: work });
  children.push(coturn.child);
  const url = `turn:${turn.address}:${TURN_PORT}?transport=tcp`;
  const stoa = await serve("turn", "--turn-urls", url, "--turn-secret", TURN_SECRET);
  const { roomId, pages, iceServers } = await call(stoa);
  const [{ urls, username }] = iceServers as [{ urls: string[]; username: string }];
  expect(urls).toEqual([url]);
  const endsInSeconds = Number(username.split(":")[0]) - Date.now() / 1000;
  expect(endsInSeconds).toBeGreaterThan(0);
  expect(endsInSeconds).toBeLessThan(24 * 3600);
  for (const page of pages) expect(await pathShown(page)).toBe("relay");
  for (const { server: seen, client: said } of await pathsTold(stoa, roomId)) {
    expect(said).toBe("relay");
    // The server sees the relay's own packets: UDP, from the TURN server's address.
    expect(seen).toMatchObject({ transport: "udp", remoteAddress: expect.stringContaining(`${turn.address}:`) });
  }
  expect(coturn.log()).toContain(`:anna>`);
  await Promise.all(pages.map((page) => page.close()));
}, 90_000);
