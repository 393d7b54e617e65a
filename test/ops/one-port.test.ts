import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { type Browser, chromium, type Page } from "playwright-core";
import { type Connection, Stoa } from "../../web/sdk/server.ts";
import { CHROMIUM } from "../browser/media/harness.ts";
import { hearing, joinRoom, moreFrames } from "../browser/sdk/page-api.ts";
import { serveSite } from "../browser/sdk/stage.ts";
import { FROM_SOURCE, startStoa } from "../cli/stoa.ts";
import { type Lan, type Machine, openLan } from "../harness/namespaces.ts";
import { program } from "./machine.ts";
import { keyPath, prepareData } from "./served.ts";

const DOMAIN = "rtc.example.com";
const PROXY_PORT = 3128;
const work = mkdtempSync(join(tmpdir(), "stoa-one-port-"));
let lan: Lan<"narrow" | "proxied" | "proxy" | "server">;
let stoa: Stoa;
let sdk: string;
const children: Bun.Subprocess[] = [];
const browsers: Browser[] = [];

/** A network namespace has a hosts file of its own, when there is one. */
function knows({ prefix }: Machine, address: string): void {
  const folder = `/etc/netns/${prefix[3]}`;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "hosts"), `127.0.0.1 localhost\n${address} ${DOMAIN}\n`);
}

beforeAll(async () => {
  await program("chromium");
  lan = await openLan("narrow", "proxied", "proxy", "server");
  const { narrow, proxied, proxy, server } = lan.machines;
  for (const machine of [narrow, proxied, proxy]) knows(machine, server.address);
  await narrow.keepIn("oifname lo accept", "tcp dport 443 accept", "drop");
  await proxied.keepIn("oifname lo accept", `ip daddr ${proxy.address} tcp dport ${PROXY_PORT} accept`, "drop");
  const names = ["-subj", `/CN=${DOMAIN}`, "-addext", `subjectAltName=DNS:${DOMAIN}`, "-days", "2"];
  const [cert, key] = [join(work, "cert.pem"), join(work, "key.pem")];
  await $`openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes ${names} -keyout ${key} -out ${cert}`.quiet();
  const script = [process.execPath, join(import.meta.dir, "connect-proxy.ts"), proxy.address, String(PROXY_PORT)];
  const proxyProgram = Bun.spawn([...proxy.prefix, ...script], { stdout: "pipe", stderr: "ignore" });
  children.push(proxyProgram);
  await proxyProgram.stdout.getReader().read();

  const dataDir = join(work, "data");
  await prepareData(dataDir);
  const media = ["--media-udp-port", "7001", "--media-workers", "2", "--public-ip", server.address];
  const domain = ["--domain", DOMAIN, "--tls-cert", cert, "--tls-key", key];
  const command = [...server.prefix, ...FROM_SOURCE, "serve", "--data-dir", dataDir, ...domain, ...media];
  const { child } = await startStoa(command);
  children.push(child);
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  stoa = new Stoa({ url: `https://${server.address}`, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
  const site = await serveSite();
  sdk = await (await fetch(`${site.url.origin}/sdk.js`)).text();
  await site.stop(true);
}, 120_000);

afterAll(async () => {
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  for (const browser of browsers) await browser.close();
  for (const child of children.reverse()) {
    child.kill("SIGKILL");
    await child.exited;
  }
  for (const { prefix } of Object.values(lan?.machines ?? {}))
    rmSync(`/etc/netns/${prefix[3]}`, { recursive: true, force: true });
  await lan?.close();
  rmSync(work, { recursive: true, force: true });
});

async function pagesOn(machine: Machine, args: string[]): Promise<[Page, Page]> {
  const browser = await chromium.launch({
    ...CHROMIUM,
    executablePath: machine.wrapper(CHROMIUM.executablePath, work),
    args: [...CHROMIUM.args, "--ignore-certificate-errors", ...args],
  });
  browsers.push(browser);
  const context = await browser.newContext({ permissions: ["camera", "microphone"], bypassCSP: true });
  // The page of a site that is served from the same name; the SDK is this checkout's, unchanged.
  await context.route(`https://${DOMAIN}/sdk.js`, (route) =>
    route.fulfill({ body: sdk, contentType: "text/javascript" }),
  );
  const pages = [await context.newPage(), await context.newPage()] as [Page, Page];
  for (const page of pages) await page.goto(`https://${DOMAIN}/healthz`);
  return pages;
}

async function call(pages: [Page, Page]): Promise<{ roomId: string; tookMs: number }> {
  const room = await stoa.rooms.create({ name: crypto.randomUUID() });
  const mint = (participantIdentity: string) =>
    stoa.rtcTokens.mint(room.id, { participantIdentity, permissions: { publish: true } });
  const tokens = [await mint("anna"), await mint("ben")] as const;
  const since = performance.now();
  await Promise.all(pages.map((page, at) => joinRoom(page, tokens[at] as never, ["camera", "microphone"])));
  const [anna, ben] = pages;
  await Promise.all([moreFrames(anna, "ben-camera"), moreFrames(ben, "anna-camera"), hearing(anna), hearing(ben)]);
  return { roomId: room.id, tookMs: performance.now() - since };
}

/** What the browser says of the path in use. */
async function pathOf(page: Page): Promise<{ type: string; relayProtocol: string }> {
  return page.evaluate(async () => {
    const { path } = (await window.room.getStats()) ?? {};
    const all = await window.peerConnections.at(-1)?.getStats();
    const pairs = [...(all?.values() ?? [])].filter(
      ({ type, nominated, state }) => type === "candidate-pair" && nominated && state === "succeeded",
    );
    const local = all?.get(pairs.at(-1)?.localCandidateId);
    return { type: String(path), relayProtocol: String(local?.relayProtocol) };
  });
}

declare global {
  interface Window {
    peerConnections: RTCPeerConnection[];
  }
}

/** Keeps what the SDK makes, to be asked afterwards. */
const KEEP = `window.peerConnections = [];
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(...given) { super(...given); window.peerConnections.push(this); }
  };`;

async function served(machine: Machine, args: string[], clientAddress: string): Promise<void> {
  const pages = await pagesOn(machine, args);
  for (const page of pages) await page.evaluate(KEEP);
  const { roomId, tookMs } = await call(pages);
  expect(tookMs).toBeLessThan(10_000);
  for (const page of pages) expect(await pathOf(page)).toEqual({ type: "relay", relayProtocol: "tls" });
  const records: Connection[] = await stoa.connections.list({ roomId });
  expect(records.length).toBe(2);
  for (const { id } of records) {
    const record = (await stoa.connections.get(id)) as Connection & {
      ipAddress?: string;
      events: { type: string; source: string; data: Record<string, unknown> | null }[];
    };
    const connected = record.events.find(({ type, source }) => type === "connected" && source === "server");
    expect(connected?.data).toMatchObject({
      transport: "relay",
      remoteAddress: expect.stringContaining(`${clientAddress}:`),
    });
  }
  for (const page of pages) await page.close();
}

test("[22] a client that may speak to tcp 443 and to nothing else has a call, through the relay, and is known by its address", async () => {
  await served(lan.machines.narrow, [], lan.machines.narrow.address);
}, 90_000);

test("[22] so has one that reaches nothing but a proxy with CONNECT", async () => {
  const { proxied, proxy } = lan.machines;
  await served(proxied, [`--proxy-server=http://${proxy.address}:${PROXY_PORT}`], proxy.address);
}, 90_000);

test("[22] nothing of the relay listens to the outside", async () => {
  const shown = await $`${lan.machines.server.prefix} ss -Hulpn`.text();
  const ports = shown
    .trim()
    .split("\n")
    .map((line) => line.split(/\s+/)[3] ?? "");
  const outside = ports.filter((address) => !address.startsWith("127.0.0.1:"));
  expect(outside.map((address) => address.split(":").at(-1)).sort()).toEqual(["7001", "7002"]);
});
