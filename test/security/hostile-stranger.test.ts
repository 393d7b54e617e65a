// suite: all
/** A stranger against the compiled binary, with nothing but the public port, and a tenant with a key of its own. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "../network/acme/pebble.ts";
import { makeCertificate } from "../ops/certificate.ts";
import { type AttackedServer, type AttackedTenant, attackedServer } from "./attacked-server.ts";
import { answerOverTls, FRAMING, sendAndReset } from "./hostile-stranger.ts";
import { INSIDE, TENANT_ATTACKS } from "./hostile-tenant.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-stranger-"));
let server: AttackedServer;
let tenant: AttackedTenant;
let live: AttackedTenant;
let tlsPort: number;

beforeAll(async () => {
  const { cert, key } = await makeCertificate(folder, "localhost");
  [tlsPort = 0] = await freePorts(1);
  const hosts = join(folder, "hosts");
  writeFileSync(hosts, `127.0.0.1 localhost ${INSIDE}\n`);
  server = await attackedServer({
    flags: ["--tls-cert", cert, "--tls-key", key, "--edge-port", String(tlsPort)],
    env: { TRUSTED_PROXIES: "127.0.0.1" },
    // The attacker's name resolves as its owner wants it to.
    wrapper: ["unshare", "-rm", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts],
  });
  tenant = await server.tenant("attacker");
  live = await server.tenant("attacker", "production");
}, 240_000);
afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const healthOverTls = async () => {
  const init = { tls: { rejectUnauthorized: false }, signal: AbortSignal.timeout(5_000) };
  return (await fetch(`https://localhost:${tlsPort}/healthz`, init as RequestInit)).status;
};

for (const [name, rest] of Object.entries(FRAMING)) {
  test(`a request with ${name} is refused, and the server continues`, async () => {
    const answer = await answerOverTls(tlsPort, `POST /v1/rooms HTTP/1.1\r\nhost: localhost\r\n${rest}`);
    // A stranger is refused before the body is read: the first answer may be that one.
    expect(answer.split(/(?=HTTP\/1\.1 )/).at(-1)).toStartWith("HTTP/1.1 400 ");
    expect(await healthOverTls()).toBe(200);
  });
}

test("a request head that never ends is refused, and the server continues", async () => {
  expect(await answerOverTls(tlsPort, `GET /${"a".repeat(20_000)}`)).toStartWith("HTTP/1.1 431 ");
  expect(await healthOverTls()).toBe(200);
});

test("a client that resets its connection after a request cannot make a forged address count as its own", async () => {
  const forged = "203.0.113.77";
  for (let n = 0; n < 20; n++) {
    const head = `GET /v1/auth/me?n=${n} HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: ${forged}\r\n\r\n`;
    await sendAndReset(server.url, head, "127.0.0.2");
  }
  const lines = () =>
    server
      .log()
      .split("\n")
      .filter((line) => line.includes('"/v1/auth/me"'));
  while (lines().length < 20) await Bun.sleep(10);
  const addresses = new Set(lines().map((line) => (JSON.parse(line) as { ip: string }).ip));
  expect([...addresses].every((ip) => ip === "unknown" || ip === "127.0.0.2")).toBe(true);
});

test("a guessed key opens no HLS playlist and no segment, and a forged client address no metrics", async () => {
  const guesses = ["0".repeat(64), "a-b-c-d", "../../v1/projects", "%2e%2e", ""];
  for (const key of guesses) {
    for (const name of ["video.m3u8", "video-0.m4s", "video-init-0.mp4"]) {
      const url = `https://localhost:${tlsPort}/v1/live-streams/x/hls/${key}/${name}`;
      const response = await fetch(url, { tls: { rejectUnauthorized: false } } as RequestInit);
      expect([key, name, response.status]).toEqual([key, name, response.status === 401 ? 401 : 404]);
    }
  }
  const forwarded = { headers: { "x-forwarded-for": "203.0.113.77" }, tls: { rejectUnauthorized: false } };
  expect((await fetch(`https://localhost:${tlsPort}/metrics`, forwarded as RequestInit)).status).toBe(403);
});

for (const [name, attack] of Object.entries(TENANT_ATTACKS)) {
  test(name, () => attack({ server, tenant, live }), 60_000);
}
