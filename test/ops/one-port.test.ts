import { afterAll, beforeAll, expect, test } from "bun:test";
import { $ } from "bun";
import type { Connection } from "../../web/sdk/server.ts";
import { PROGRAM, WARM_UP } from "../cli/stoa.ts";
import { joinRoom, receivesAudio, waitForFrames } from "../e2e/sdk/page-api.ts";
import type { Scripted } from "../e2e/sdk/scripted.ts";
import { type Behind, DOMAIN, FLEET_SECRET, NODE_DOMAIN, type OnePort, openOnePort } from "./one-port.ts";

const PATIENCE_MS = 120_000;
let stage: OnePort;

beforeAll(async () => {
  stage = await openOnePort();
  await startNode(stage);
}, PATIENCE_MS);

afterAll(() => stage?.close(), PATIENCE_MS);

async function startNode({ lan, certificate: { cert, key, ca }, keep }: OnePort): Promise<void> {
  const { node } = lan.machines;
  const own = ["--domain", NODE_DOMAIN, "--tls-cert", cert, "--tls-key", key, "--sfu-region", "far"];
  const place = ["--public-ip", node.address, "--media-workers", "1", "--sfu-node-name", "far1"];
  const command = [...node.prefix, ...PROGRAM, "node", "--control-plane", `https://${DOMAIN}`, ...own, ...place];
  // Each has a certificate of the test's authority.
  const secrets = { SFU_REGISTRATION_SECRET: FLEET_SECRET, NODE_EXTRA_CA_CERTS: ca };
  const env = { PATH: process.env.PATH ?? "", HOME: "/nonexistent", ...WARM_UP, ...secrets };
  const child = Bun.spawn(command, { env, stdout: "pipe", stderr: "inherit" });
  keep(child);
  await registered(child.stdout);
}

async function registered(stdout: ReadableStream<Uint8Array>): Promise<void> {
  const decoder = new TextDecoder();
  let said = "";
  for await (const chunk of stdout) {
    said += decoder.decode(chunk, { stream: true });
    if (said.includes("  Registered")) return;
  }
  throw new Error(`the node has ended: ${said}`);
}

async function call(pages: readonly Scripted[], region: string | undefined): Promise<string> {
  const { rooms, rtcTokens } = stage.stoa;
  const room = await rooms.create({ name: crypto.randomUUID(), ...(region === undefined ? {} : { region }) });
  const mint = (participantIdentity: string) =>
    rtcTokens.mint(room.id, { participantIdentity, permissions: { publish: true } });
  const tokens = [await mint("anna"), await mint("ben")];
  await Promise.all(pages.map((page, at) => joinRoom(page, tokens[at] as never, ["camera", "microphone"], 180)));
  await Promise.all(
    pages.flatMap((page, at) => [
      waitForFrames(page, at === 0 ? "ben-camera" : "anna-camera", 15, PATIENCE_MS),
      receivesAudio(page, PATIENCE_MS),
    ]),
  );
  return room.id;
}

/** The selected candidate pair, as the browser reports it. */
function pathOf(page: Scripted): Promise<{ type: string; relayProtocol: string }> {
  return page.evaluate(async () => {
    const { path } = (await window.room.getStats()) ?? {};
    const all = await window.peerConnections.at(-1)?.getStats();
    const stats = [...(all?.values() ?? [])];
    // A pair is "in-progress" again whenever a check of it is pending, and Firefox marks the selected one.
    const transport = stats.find(({ type }) => type === "transport");
    const inUse = ({ id, selected }: { id: string; selected?: boolean }) =>
      transport ? id === transport.selectedCandidatePairId : selected === true;
    const local = all?.get(stats.find(inUse)?.localCandidateId);
    return { type: String(path), relayProtocol: String(local?.relayProtocol) };
  }, undefined);
}

declare global {
  interface Window {
    peerConnections: RTCPeerConnection[];
  }
}

/** Chromium calls Firefox; returns the paths that the connection records contain. */
async function served(behind: Behind, clientAddress: string, region?: string): Promise<(string | null)[]> {
  const pages = await Promise.all([stage.page("chromium", behind), stage.page("firefox", behind)]);
  const roomId = await call(pages, region);
  for (const page of pages) expect(await pathOf(page)).toEqual({ type: "relay", relayProtocol: "tls" });
  const { connections } = stage.stoa;
  const records: Connection[] = await connections.list({ roomId });
  expect(records.length).toBe(2);
  for (const { id } of records) {
    const record = (await connections.get(id)) as Connection & {
      events: { type: string; source: string; data: Record<string, unknown> | null }[];
    };
    const connected = record.events.find(({ type, source }) => type === "connected" && source === "server");
    expect(connected?.data).toMatchObject({
      transport: "relay",
      remoteAddress: expect.stringContaining(`${clientAddress}:`),
    });
  }
  for (const page of pages) await page.evaluate(() => window.room.close(), undefined);
  return records.map(({ serverName }) => serverName);
}

test(
  "[22] Chromium and Firefox that may speak to tcp 443 and to nothing else have a call, through the relay, and are known by their address",
  async () => {
    await served("narrow", stage.lan.machines.narrow.address);
  },
  PATIENCE_MS,
);

test(
  "[22] browsers that reach nothing but a proxy with CONNECT can have a call",
  async () => {
    await served("proxied", stage.lan.machines.proxy.address);
  },
  PATIENCE_MS,
);

test(
  "[22] browsers with only tcp 443 join a room on a node with its own domain, whose records show the client and not our relay",
  async () => {
    expect(await served("narrow", stage.lan.machines.narrow.address, "far")).toEqual(["far1", "far1"]);
  },
  PATIENCE_MS,
);

test("[22] the relay listens on no port of its own", async () => {
  const shown = await $`${stage.lan.machines.server.prefix} ss -Hulpn`.text();
  const ports = shown
    .trim()
    .split("\n")
    .map((line) => line.split(/\s+/)[3] ?? "");
  const outside = ports.filter((address) => !address.startsWith("127.0.0.1:"));
  expect(outside.map((address) => address.split(":").at(-1)).sort()).toEqual(["7001", "7002"]);
});
