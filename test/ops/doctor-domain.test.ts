import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Check } from "../../src/ops/doctor/check.ts";
import { PROGRAM, startStoa } from "../cli/stoa.ts";
import { type Lan, openLan } from "../harness/namespaces.ts";
import { startPebble } from "../network/acme/pebble.ts";
import { program } from "./machine.ts";
import { DOMAIN, nameHosts } from "./one-port.ts";

const PATIENCE_MS = 180_000;
/** An address that the server takes for its public one, and a foreign address; neither is reachable from the test. */
const [PUBLIC, ELSEWHERE] = ["9.9.9.9", "8.8.4.4"];
const work = mkdtempSync(join(tmpdir(), "stoa-doctor-domain-"));
const stops: (() => unknown)[] = [() => rmSync(work, { recursive: true, force: true })];
const roots = join(work, "roots.pem");
let lan: Lan<"server">;
let settings: string[];

/** A machine with a name that resolves to it, an ACME authority, and port 80. */
beforeAll(async () => {
  await program("pebble");
  lan = await openLan("server");
  stops.push(() => lan.close());
  const { server } = lan.machines;
  stops.push(nameHosts(server, [`${server.address} ${DOMAIN}`]));
  const pebble = await startPebble({ tlsPort: 443, httpPort: 80, address: server.address, at: lan.address });
  stops.push(() => pebble.close());
  const root = await pebble.root();
  writeFileSync(roots, root);
  const authority = ["--acme-directory", pebble.directory, "--acme-ca", pebble.caFile];
  // Loopback is announced too; a relay to its media ports reaches nothing else there.
  const announced = [server.address, PUBLIC, "127.0.0.1"].join(",");
  const media = ["--media-udp-port", "7001", "--media-workers", "2", "--public-ip", announced];
  settings = ["--data-dir", join(work, "data"), "--domain", DOMAIN, ...authority, ...media];
  const { child } = await startStoa([...server.prefix, ...PROGRAM, "serve", ...settings]);
  stops.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  const asked = { headers: { host: DOMAIN }, tls: { ca: root, serverName: DOMAIN } } as RequestInit;
  const isReady = async () => (await fetch(`https://${server.address}/readyz`, asked).catch(() => null))?.ok;
  while (!(await isReady())) await Bun.sleep(100);
}, PATIENCE_MS);

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
}, PATIENCE_MS);

async function doctor(): Promise<(name: string) => Partial<Check>> {
  const { prefix } = lan.machines.server;
  const env = { PATH: process.env.PATH ?? "", HOME: "/nonexistent", NODE_EXTRA_CA_CERTS: roots };
  const command = [...prefix, ...PROGRAM, "doctor", "--json", ...settings];
  const child = Bun.spawn(command, { env, stdout: "pipe", stderr: "inherit" });
  const checks = JSON.parse(await new Response(child.stdout).text()) as Check[];
  return (name) => checks.find((check) => check.name === name) ?? {};
}

test(
  "[22] the doctor finds a server with a domain in order: its name, port 80, its certificate, and the relay through the whole path",
  async () => {
    const of = await doctor();
    expect(of("domain")).toMatchObject({ status: "pass", detail: `${DOMAIN} leads to this machine` });
    expect(of("port-80")).toMatchObject({ status: "pass", detail: `http://${DOMAIN}:80/ leads to https://${DOMAIN}/` });
    expect(of("certificate").status).toBe("pass");
    expect(of("turn")).toMatchObject({
      status: "pass",
      detail: `turns:${DOMAIN}:443?transport=tcp relays to media port 7001, 7002`,
    });
    expect(of("turn-closed").status).toBe("pass");
    expect(of("websocket").status).toBe("pass");
  },
  PATIENCE_MS,
);

test(
  "[22] the doctor says which part of a domain's setup is wrong, and what to do",
  async () => {
    const { server } = lan.machines;
    await server.refuse(...[80, 443].map((port) => `tcp dport ${port} reject with tcp reset`));
    nameHosts(server, [`${server.address} ${DOMAIN}`, `${ELSEWHERE} ${DOMAIN}`]);
    const of = await doctor();
    expect(of("domain")).toMatchObject({ status: "fail", detail: expect.stringContaining(`resolves to ${ELSEWHERE}`) });
    expect(of("port-80")).toMatchObject({ status: "warn", remedy: expect.stringContaining("Let in tcp 80") });
    expect(of("turn")).toMatchObject({ status: "fail", remedy: expect.stringContaining("Let EDGE_PORT in") });
    // A relay that cannot be reached has not been found open.
    expect(of("turn-closed")).toMatchObject({ status: "warn", detail: expect.stringContaining("not checked") });
  },
  PATIENCE_MS,
);
