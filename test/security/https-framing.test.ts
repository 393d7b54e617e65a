import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RealServer, realServer } from "../harness/real-server.ts";
import { freePorts } from "../network/acme/pebble.ts";
import { closed, secured } from "../network/tls/stage.ts";
import { makeCertificate } from "../ops/certificate.ts";

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

/** All that comes back until the server closes the connection. */
async function answerTo(bytes: string): Promise<string> {
  const socket = await secured(edgePort);
  let text = "";
  socket.on("data", (data: Buffer) => {
    text += data.toString("latin1");
  });
  socket.on("error", () => {});
  const gone = closed(socket);
  socket.write(bytes, "latin1");
  await gone;
  return text;
}

/** Of a stranger: nothing of it needs a credential. */
const STRANGE: Record<string, string> = {
  "a chunk of size -6": "transfer-encoding: chunked\r\n\r\n-6\r\n\r\n\r\n",
  "a negative chunk behind another": "transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n-9\r\n\r\n\r\n",
  "a chunk past every number": `transfer-encoding: chunked\r\n\r\n${"f".repeat(16)}\r\nhello`,
  "a chunk that goes on where it should end": "transfer-encoding: chunked\r\n\r\n5\r\nhello!!0\r\n\r\n",
  "an extension without an end": `transfer-encoding: chunked\r\n\r\n5;${"a".repeat(2_000)}`,
  "trailers without an end": `transfer-encoding: chunked\r\n\r\n0\r\n${"x: y\r\n".repeat(1_000)}`,
  "a negative length": "content-length: -6\r\n\r\nhello",
  "a length after a space of another kind": "content-length: \xa05\r\n\r\nhello",
  "a length and chunks": "content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  "two lengths": "content-length: 5\r\ncontent-length: 0\r\n\r\nhello",
  "a folded header": "x: a\r\n content-length: 5\r\n\r\nhello",
  "bare line feeds": "x: a\ncontent-length: 5\n\nhello",
  "a bare carriage return": "x: a\rcontent-length: 5\r\n\r\nhello",
};

for (const [name, rest] of Object.entries(STRANGE)) {
  test(`[1] a request over TLS with ${name} is a 400, and the TLS thread goes on`, async () => {
    const answer = await answerTo(`POST /v1/rooms HTTP/1.1\r\nhost: localhost\r\n${rest}`);
    // A stranger is refused before the body is read: the first answer may be that one.
    expect(answer.split(/(?=HTTP\/1\.1 )/).at(-1)).toStartWith("HTTP/1.1 400 ");
    const response = await fetch(`https://localhost:${edgePort}/healthz`, { tls: { rejectUnauthorized: false } });
    expect(response.status).toBe(200);
  });
}

test("[1] a head over TLS that has no end is a 431", async () => {
  expect(await answerTo(`GET /${"a".repeat(20_000)}`)).toStartWith("HTTP/1.1 431 ");
});
