import { afterAll, expect, test } from "bun:test";
import { realServer } from "../harness/real-server.ts";
import { answerTo, rawConnection } from "./raw-http.ts";

const server = await realServer();
afterAll(server.close);
const host = new URL(server.url).host;
const credential = `host: ${host}\r\nauthorization: Bearer ${server.key}\r\ncontent-type: application/json\r\n`;
const alive = async () => expect((await server.call("GET", "/v1/project")).status).toBe(200);
const rooms = async () => JSON.parse((await server.call("GET", "/v1/rooms")).text) as { name: string }[];

/** Two readings of one request: a proxy in front of the server could read the other. */
const AMBIGUOUS: Record<string, string> = {
  "length and chunks": "content-length: 18\r\ntransfer-encoding: chunked\r\n\r\n12\r\nBODY\r\n0\r\n\r\n",
  "two lengths": "content-length: 0\r\ncontent-length: 18\r\n\r\nBODY",
  "a length with a sign": "content-length: +18\r\n\r\nBODY",
  "a length with an exponent": "content-length: 1e1\r\n\r\nBODY",
  "a length past every number": "content-length: 99999999999999999999\r\n\r\nBODY",
  "an unknown coding": "transfer-encoding: xchunked\r\n\r\n12\r\nBODY\r\n0\r\n\r\n",
  "a space before the colon": "transfer-encoding : chunked\r\n\r\n12\r\nBODY\r\n0\r\n\r\n",
  "a chunk of no number": "transfer-encoding: chunked\r\n\r\nzz\r\nBODY\r\n0\r\n\r\n",
  "a negative chunk": "transfer-encoding: chunked\r\n\r\n-1\r\nBODY\r\n0\r\n\r\n",
  "a folded header": "x-a: b\r\n c: d\r\ncontent-length: 18\r\n\r\nBODY",
  "a zero byte": "x-a: b\0c\r\ncontent-length: 18\r\n\r\nBODY",
};

for (const [name, rest] of Object.entries(AMBIGUOUS)) {
  test(`[1] a request with ${name} is refused, and nothing it carries is done`, async () => {
    const bytes = `POST /v1/rooms HTTP/1.1\r\n${credential}${rest.replace("BODY", '{"name":"smuggle"}')}`;
    expect(await answerTo(server.url, bytes)).toStartWith("HTTP/1.1 400 ");
    expect((await rooms()).map((room) => room.name)).not.toContain("smuggle");
  });
}

const HOSTS = ["", "evil.example/x", 'evil.example/"x', "a b", "a@b", "?x", "#", "%", "[::1", "a:99999", "a:b", "a\\b"];

test.each([...HOSTS, "256.256.256.256", "ü"])(
  "[1] an invalid Host is answered with 400 on every kind of route: %p",
  async (name) => {
    const asked = [
      ["POST", "/v1/chat/tokens", '{"userId":"ada"}'],
      ["GET", "/v1/project", ""],
      ["GET", "/v1/chat/ws?token=x", ""],
      ["GET", "/nowhere", ""],
      ["PUT", "/v1/storage/att_x", ""],
    ] as const;
    for (const [method, path, body] of asked) {
      const head = `${method} ${path} HTTP/1.1\r\nhost: ${name}\r\nauthorization: Bearer ${server.key}\r\n`;
      const length = `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      expect(await answerTo(server.url, head + length)).toStartWith("HTTP/1.1 400 ");
    }
  },
);

test.each(["localhost:1", "stoa.example", "[::1]:7000", "127.0.0.1", "a_b.example"])(
  "[6] a valid Host is used in the URLs of the response: %p",
  async (name) => {
    const head = `POST /v1/chat/tokens HTTP/1.1\r\n${credential.replace(host, name)}content-length: 16\r\n\r\n`;
    const { socket, heard } = await rawConnection(server.url, `${head}{"userId":"ada"}`);
    while (!heard().includes('"endpoint"')) await Bun.sleep(5);
    socket.destroy();
    expect(heard()).toContain(`"endpoint":"ws://${name}/v1/chat/ws"`);
  },
);

test("[1] a request with two Host headers is refused", async () => {
  const bytes = "GET /healthz HTTP/1.1\r\nhost: a.example\r\nhost: b.example\r\n\r\n";
  expect(await answerTo(server.url, bytes)).toStartWith("HTTP/1.1 400 ");
});

const FLOODED = [
  ["a declared length, no credential", "POST /v1/rooms HTTP/1.1\r\nhost: a\r\ncontent-length: 64000000\r\n\r\n"],
  ["no route", "POST /nowhere HTTP/1.1\r\nhost: a\r\ncontent-length: 64000000\r\n\r\n"],
  ["a GET", "GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 64000000\r\n\r\n"],
  ["an upload without a signature", "PUT /v1/storage/att_x HTTP/1.1\r\nhost: a\r\ncontent-length: 64000000\r\n\r\n"],
] as const;

test.each(FLOODED)("[1] a body of 64 MB is passed over, not kept: %s", async (_, head) => {
  const before = process.memoryUsage.rss();
  const { socket, heard } = await rawConnection(server.url, head);
  const part = Buffer.alloc(1_000_000, 32);
  for (let sent = 0; sent < 64; sent++) {
    if (!socket.write(part)) await new Promise((done) => socket.once("drain", done));
  }
  while (!heard().includes("\r\n\r\n")) await Bun.sleep(5);
  socket.destroy();
  await alive();
  expect(process.memoryUsage.rss() - before).toBeLessThan(48_000_000);
});

test("[1] a body with a content-encoding is not decompressed", async () => {
  const bomb = Bun.gzipSync(Buffer.alloc(100_000_000, 32), { level: 9 });
  const before = process.memoryUsage.rss();
  const response = await fetch(`${server.url}/v1/rooms`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.key}`, "content-type": "application/json", "content-encoding": "gzip" },
    body: bomb,
  });
  expect(response.status).toBe(400);
  expect(process.memoryUsage.rss() - before).toBeLessThan(48_000_000);
});

test("[1] an upgrade without a WebSocket key gets 400 in the error format of the API, on both sockets", async () => {
  for (const path of ["/v1/chat/ws", "/v1/rtc"]) {
    const head = `GET ${path}?token=x HTTP/1.1\r\nhost: ${host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n`;
    const answer = await answerTo(server.url, head);
    expect(answer).toStartWith("HTTP/1.1 400 ");
    expect(answer).toContain("SVC_VALIDATION_FAILED");
  }
});

test("[8] a socket does not negotiate compression, so that no frame can grow when it is decompressed", async () => {
  const upgrade =
    "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  for (const path of ["/v1/chat/ws", "/v1/rtc"]) {
    const head = `GET ${path}?token=x HTTP/1.1\r\nhost: ${host}\r\n${upgrade}sec-websocket-extensions: permessage-deflate\r\n\r\n`;
    const answer = await answerTo(server.url, head);
    expect(answer).toStartWith("HTTP/1.1 101 ");
    expect(answer.toLowerCase()).not.toContain("permessage-deflate");
    // The same with a frame that claims to be compressed.
    const { socket, heard, closed } = await rawConnection(server.url, head);
    while (!heard().includes("\r\n\r\n")) await Bun.sleep(5);
    socket.write(Buffer.from([0xc1, 0x80, 0, 0, 0, 0]));
    await closed;
  }
  await alive();
});
