import { afterAll, beforeAll, expect, test } from "bun:test";
import { createForwardedClient, forwardedForLine } from "../../../src/kernel/net/loopback-transport.ts";
import { closed, tlsStage, until } from "./stage.ts";

let stage: Awaited<ReturnType<typeof tlsStage>>;
beforeAll(async () => {
  stage = await tlsStage({ overLoopback: true });
});
afterAll(() => stage.close());

/** The response to these bytes, until it is complete or the server closes the connection. */
async function answered(text: string, isWhole: (answer: string) => boolean): Promise<string> {
  const socket = await stage.tls();
  let answer = "";
  socket.on("data", (data: Buffer) => {
    answer += data.toString();
  });
  socket.on("error", () => {});
  const gone = closed(socket);
  socket.write(text);
  await Promise.race([gone, until(() => isWhole(answer))]);
  socket.destroy();
  return answer;
}

const carriedFor = JSON.stringify({ carried: "127.0.0.1" });
const count = (text: string, part: string) => text.split(part).length - 1;

test("every request of a connection carries the client's address, with bodies in between and in pipelines", async () => {
  const get = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
  const post = `POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${get.length}\r\n\r\n${get}`;
  const chunks = `${get.length.toString(16)}\r\n${get}\r\n0\r\n\r\n`;
  const chunked = `POST /length HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n${chunks}`;
  const answer = await answered(get + post + chunked + get, (text) => count(text, "200 OK") === 4);
  expect(count(answer, carriedFor)).toBe(2);
  expect(count(answer, JSON.stringify({ carried: "127.0.0.1", length: get.length }))).toBe(2);
});

test("a client that sends the address header itself is refused", async () => {
  const { loopback } = stage;
  if (!loopback) return;
  for (const line of [forwardedForLine(loopback, "203.0.113.9"), "x-stoa-carried-for: 203.0.113.9\r\n"]) {
    const answer = await answered(`GET / HTTP/1.1\r\n${line}host: localhost\r\n\r\n`, (text) =>
      text.includes("\r\n\r\n"),
    );
    expect(answer).toStartWith("HTTP/1.1 403");
  }
});

test("a request hidden from the TLS thread has no client address and is refused", async () => {
  const { loopback } = stage;
  if (!loopback) return;
  const hidden = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
  // The TLS thread looks for no more requests after an upgrade request; this server rejects the upgrade and reads on.
  const socket = "GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n\r\n";
  const answer = await answered(socket + hidden, (text) => count(text, "HTTP/1.1") === 2);
  expect(count(answer, carriedFor)).toBe(1);
  expect(answer).toContain("HTTP/1.1 403");
});

test.each(["-6", "-8", "-1", "+5", "0x5", "5 5", "", "f".repeat(17)])(
  "a chunk of size %p is refused, and the TLS thread continues to serve others",
  async (size) => {
    const head = "POST /length HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    const answer = await answered(`${head}${size}\r\nhello\r\n0\r\n\r\n`, () => false);
    expect(answer).toStartWith("HTTP/1.1 400 ");
    expect((await stage.get("/")).status).toBe(200);
  },
);

test("a local program that connects to the loopback transport directly is refused", async () => {
  const { loopback } = stage;
  if (!loopback) return;
  const response = await fetch("http://localhost/", { unix: loopback.name } as RequestInit);
  expect(response.status).toBe(403);
});

test("the proof of a client's address is valid for that address only", () => {
  const { loopback } = stage;
  if (!loopback) return;
  const clientOf = createForwardedClient(loopback);
  const asked = (value: string) =>
    clientOf(new Request("http://localhost/", { headers: { "x-stoa-carried-for": value } }));
  const own = forwardedForLine(loopback, "203.0.113.9").slice("x-stoa-carried-for: ".length).trim();
  expect(asked(own)).toBe("203.0.113.9");
  const [, shown = ""] = own.split(" ");
  for (const forged of [`203.0.113.8 ${shown}`, "203.0.113.9", `${own}, ${own}`, `${own} x`, ` ${shown}`, ""])
    expect(asked(forged)).toBeNull();
});

test("without the loopback transport TCP forwards clients with their addresses", async () => {
  const other = await tlsStage({ overLoopback: true });
  try {
    await other.loopbackServer?.stop(true);
    expect(await (await other.get("/")).json()).toMatchObject({ client: { address: "127.0.0.1" } });
  } finally {
    await other.close();
  }
});

test("when the loopback transport's queue overflows, all clients are served with their addresses", async () => {
  const many = 700;
  const limits = { waitingPerAddress: many, waiting: many, handshakesPerSecond: many, handshakeBurst: many };
  const crowded = await tlsStage({ overLoopback: true, limits: { ...limits, patienceMs: 120_000 } });
  try {
    const sockets = [];
    while (sockets.length < many) sockets.push(...(await Promise.all(Array.from({ length: 50 }, () => crowded.tls()))));
    const answers = sockets.map((socket) => new Promise((resolve) => socket.once("data", resolve)));
    for (const socket of sockets) socket.write("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
    // The server's thread is blocked and accepts nothing, while the TLS thread continues.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    for (const answer of answers) expect(String(await answer)).toContain('"carried":"127.0.0.1"');
    for (const socket of sockets) socket.destroy();
  } finally {
    await crowded.close();
  }
});
