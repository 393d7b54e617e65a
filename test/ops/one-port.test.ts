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
const NODE_DOMAIN = "node.example.com";
const SECRET = "a-secret-of-the-fleet";
const PROXY_PORT = 3128;
const work = mkdtempSync(join(tmpdir(), "stoa-one-port-"));
let lan: Lan<"narrow" | "proxied" | "proxy" | "server" | "node">;
let stoa: Stoa;
let sdk: string;
const children: Bun.Subprocess[] = [];
const browsers: Browser[] = [];

/** A network namespace has a hosts file of its own, when there is one. */
function knows({ prefix }: Machine, { server, node }: Record<"server" | "node", Machine>): void {
  const folder = `/etc/netns/${prefix[3]}`;
  mkdirSync(folder, { recursive: true });
  const names = [`${server.address} ${DOMAIN}`, `${node.address} ${NODE_DOMAIN}`];
  writeFileSync(join(folder, "hosts"), `127.0.0.1 localhost\n${names.join("\n")}\n`);
}

beforeAll(async () => {
  await program("chromium");
  lan = await openLan("narrow", "proxied", "proxy", "server", "node");
  const { narrow, proxied, proxy, server, node } = lan.machines;
  for (const machine of Object.values(lan.machines)) knows(machine, lan.machines);
  await narrow.keepIn("oifname lo accept", "tcp dport 443 accept", "drop");
  await proxied.keepIn("oifname lo accept", `ip daddr ${proxy.address} tcp dport ${PROXY_PORT} accept`, "drop");
  const names = ["-subj", `/CN=${DOMAIN}`, "-addext", `subjectAltName=DNS:${DOMAIN},DNS:${NODE_DOMAIN}`, "-days", "2"];
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
  // Each has a certificate of the house's own authority.
  const env = { SFU_REGISTRATION_SECRET: SECRET, NODE_EXTRA_CA_CERTS: cert };
  const { child } = await startStoa(command, { env });
  children.push(child);
  const own = ["--domain", NODE_DOMAIN, "--tls-cert", cert, "--tls-key", key, "--sfu-region", "far"];
  const place = ["--public-ip", node.address, "--media-workers", "1", "--sfu-node-name", "far1"];
  const toControl = ["node", "--control-plane", `https://${DOMAIN}`];
  const started = [...node.prefix, ...FROM_SOURCE, ...toControl, ...own, ...place];
  const nodeProgram = Bun.spawn(started, {
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", ...env },
    stdout: "pipe",
    stderr: "inherit",
  });
  children.push(nodeProgram);
  await registered(nodeProgram.stdout);
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

async function registered(stdout: ReadableStream<Uint8Array>): Promise<void> {
  const decoder = new TextDecoder();
  let said = "";
  for await (const chunk of stdout) {
    said += decoder.decode(chunk, { stream: true });
    if (said.includes("  Registered")) return;
  }
  throw new Error(`the node has ended: ${said}`);
}

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

async function call(pages: [Page, Page], region: string | undefined): Promise<string> {
  const room = await stoa.rooms.create({ name: crypto.randomUUID(), ...(region === undefined ? {} : { region }) });
  const mint = (participantIdentity: string) =>
    stoa.rtcTokens.mint(room.id, { participantIdentity, permissions: { publish: true } });
  const tokens = [await mint("anna"), await mint("ben")] as const;
  await Promise.all(pages.map((page, at) => joinRoom(page, tokens[at] as never, ["camera", "microphone"])));
  const [anna, ben] = pages;
  await Promise.all([moreFrames(anna, "ben-camera"), moreFrames(ben, "anna-camera"), hearing(anna), hearing(ben)]);
  return room.id;
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

async function served(
  machine: Machine,
  args: string[],
  clientAddress: string,
  region?: string,
): Promise<(string | null)[]> {
  const pages = await pagesOn(machine, args);
  for (const page of pages) await page.evaluate(KEEP);
  const roomId = await call(pages, region);
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
  return records.map(({ serverName }) => serverName);
}

test("[22] a client that may speak to tcp 443 and to nothing else has a call, through the relay, and is known by its address", async () => {
  await served(lan.machines.narrow, [], lan.machines.narrow.address);
}, 90_000);

test("[22] so has one that reaches nothing but a proxy with CONNECT", async () => {
  const { proxied, proxy } = lan.machines;
  await served(proxied, [`--proxy-server=http://${proxy.address}:${PROXY_PORT}`], proxy.address);
}, 90_000);

test("[22] and in a room on a node with a domain of its own, whose records show the client and not our relay", async () => {
  const { narrow } = lan.machines;
  expect(await served(narrow, [], narrow.address, "far")).toEqual(["far1", "far1"]);
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
