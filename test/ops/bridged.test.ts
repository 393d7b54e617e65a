import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { $ } from "bun";
import { createApi } from "../../src/ops/load-test/api.ts";
import { openRelayedCall } from "../bench/edge/relayed-call.ts";
import { PROGRAM, startStoa } from "../cli/stoa.ts";
import { type Lan, openLan } from "../harness/namespaces.ts";
import { issue } from "./certificate.ts";
import { DOMAIN } from "./one-port.ts";
import { keyPath, prepareData } from "./served.ts";

const PATIENCE_MS = 180_000;
const work = mkdtempSync(join(tmpdir(), "stoa-bridged-"));
const stops: (() => unknown)[] = [() => rmSync(work, { recursive: true, force: true })];
let lan: Lan<"host" | "container">;
let apiKey: string;

/** Like a container on a bridge: clients do not know its address, and its host forwards the published ports. */
beforeAll(async () => {
  lan = await openLan("host", "container");
  stops.push(() => lan.close());
  const { host, container } = lan.machines;
  await container.refuse(`ip saddr ${lan.address} drop`);
  await $`${host.prefix} sysctl -q net.ipv4.ip_forward=1`.quiet();
  const published = ["tcp dport { 443, 7001 }", "udp dport 7001"];
  const rules = [
    "add table ip published",
    "add chain ip published in { type nat hook prerouting priority dstnat; }",
    "add chain ip published out { type nat hook postrouting priority srcnat; }",
    ...published.map((ports) => `add rule ip published in ${ports} dnat to ${container.address}`),
    `add rule ip published out ip daddr ${container.address} masquerade`,
  ];
  await $`${host.prefix} nft ${rules.join("; ")}`.quiet();

  const dataDir = join(work, "data");
  await prepareData(dataDir);
  apiKey = readFileSync(keyPath(dataDir), "utf8").trim();
  const { cert, key } = await issue(work, [DOMAIN]);
  const tls = ["--domain", DOMAIN, "--tls-cert", cert, "--tls-key", key];
  const media = ["--media-udp-port", "7001", "--media-workers", "1", "--public-ip", host.address];
  const command = [...container.prefix, ...PROGRAM, "serve", "--data-dir", dataDir, ...tls, ...media];
  const { child } = await startStoa(command);
  stops.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  stops.push(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED);
}, PATIENCE_MS);

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
}, PATIENCE_MS);

test(
  "[22] a server on a bridged network that knows its host's address is reached at the media port and through the relay",
  async () => {
    const { address } = lan.machines.host;
    const url = `https://${address}`;
    const server = { url, api: createApi(url, apiKey), edgeHost: address, edgePort: 443 };
    // This resolves when each page has received a packet.
    const call = await openRelayedCall(server, { hasDirectViewer: true });
    expect((await call.end()).isClosed).toBe(false);
  },
  PATIENCE_MS,
);
