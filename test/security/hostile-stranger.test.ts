// suite: all
/** A stranger against the compiled binary: the public port, and no credential. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningStoa, startStoa } from "../cli/stoa.ts";
import { buildBinary } from "../e2e/binary/binary.ts";
import { freePorts } from "../network/acme/pebble.ts";
import { makeCertificate } from "../ops/certificate.ts";
import { answerOverTls, FRAMING, sendAndReset } from "./hostile-stranger.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-stranger-"));
let server: RunningStoa;
let tlsPort: number;
let log = "";

beforeAll(async () => {
  const binary = await buildBinary();
  const { cert, key } = await makeCertificate(folder, "localhost");
  [tlsPort = 0] = await freePorts(1);
  const flags = ["--port", "0", "--media-udp-port", "0", "--data-dir", join(folder, "data")];
  const tls = ["--tls-cert", cert, "--tls-key", key, "--edge-port", String(tlsPort)];
  const env = { TRUSTED_PROXIES: "127.0.0.1", LOG_LEVEL: "debug", LOG_FORMAT: "json" };
  server = await startStoa([binary, "serve", ...flags, ...tls], { env, cwd: folder });
  void (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of server.child.stderr) log += decoder.decode(chunk, { stream: true });
  })();
}, 240_000);
afterAll(async () => {
  server.child.kill("SIGKILL");
  await server.child.exited;
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
  const plain = /"url":"(http:[^"]+)"/.exec(log)?.[1] ?? server.url;
  const forged = "203.0.113.77";
  for (let n = 0; n < 20; n++) {
    const head = `GET /v1/auth/me?n=${n} HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: ${forged}\r\n\r\n`;
    await sendAndReset(plain, head, "127.0.0.2");
  }
  const lines = () => log.split("\n").filter((line) => line.includes('"/v1/auth/me"'));
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
