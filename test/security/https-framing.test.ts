import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RealServer, realServer } from "../harness/real-server.ts";
import { freePorts } from "../network/acme/pebble.ts";
import { makeCertificate } from "../ops/certificate.ts";
import { answerOverTls, FRAMING } from "./hostile-stranger.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-https-"));
let server: RealServer;
let edgePort: number;

beforeAll(async () => {
  const files = await makeCertificate(folder, "localhost");
  [edgePort = 0] = await freePorts(1);
  server = await realServer({
    TLS_CERT: files.cert,
    TLS_KEY: files.key,
    EDGE_PORT: edgePort,
    PUBLIC_URL: `https://localhost:${edgePort}`,
  });
});

afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

for (const [name, rest] of Object.entries(FRAMING)) {
  test(`[1] a request over TLS with ${name} is a 400, and the TLS thread continues`, async () => {
    const answer = await answerOverTls(edgePort, `POST /v1/rooms HTTP/1.1\r\nhost: localhost\r\n${rest}`);
    // A stranger is refused before the body is read: the first answer may be that one.
    expect(answer.split(/(?=HTTP\/1\.1 )/).at(-1)).toStartWith("HTTP/1.1 400 ");
    const response = await fetch(`https://localhost:${edgePort}/healthz`, { tls: { rejectUnauthorized: false } });
    expect(response.status).toBe(200);
  });
}

test("[1] a request head over TLS that never ends gets 431", async () => {
  expect(await answerOverTls(edgePort, `GET /${"a".repeat(20_000)}`)).toStartWith("HTTP/1.1 431 ");
});
