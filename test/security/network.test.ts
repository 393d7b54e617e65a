import { afterAll, expect, test } from "bun:test";
import { ChatClient } from "../features/chat/client.ts";
import { realServer } from "../harness/real-server.ts";
import { answerTo, rawConnection } from "./raw-http.ts";

const server = await realServer({ CHAT_CONNECTION_RATE_LIMIT: 10_000, SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 10_000 });
afterAll(server.close);
const { hostname } = new URL(server.url);
const minted = await server.call("POST", "/v1/chat/tokens", { userId: "ada" });
const chatToken = String(minted.body.token);
const { token: rtcToken } = await server.mint(await server.room("lobby"), "ada");

const raw = (bytes: string) => rawConnection(server.url, bytes);
const answerOf = (bytes: string) => answerTo(server.url, bytes);
const alive = async () => expect((await server.call("GET", "/v1/project")).status).toBe(200);

test("[1] 500 requests that never end leave room for those that do", async () => {
  const slow = await Promise.all(
    Array.from({ length: 500 }, () =>
      raw(`POST /v1/auth/login HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: 99\r\nx-a: `),
    ),
  );
  for (let i = 0; i < 20; i++) await alive();
  for (const { socket } of slow) socket.write("b");
  await alive();
  for (const { socket } of slow) socket.destroy();
  await Promise.all(slow.map(({ closed }) => closed));
  await alive();
});

test("[1] endless request heads, malformed lines and wrong lengths are refused without affecting other clients", async () => {
  const many = Array.from({ length: 5_000 }, (_, i) => `x-${i}: y\r\n`).join("");
  const heads = [
    `GET /healthz HTTP/1.1\r\nhost: ${hostname}\r\n${many}\r\n`,
    `GET /healthz HTTP/1.1\r\nhost: ${hostname}\r\nx-long: ${"y".repeat(200_000)}\r\n\r\n`,
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    `POST /v1/rooms HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: -1\r\n\r\n`,
    `POST /v1/rooms HTTP/1.1\r\nhost: ${hostname}\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  ];
  for (const head of heads) {
    expect(await answerOf(head)).not.toStartWith("HTTP/1.1 2");
    await alive();
  }
});

test("[7] a line break in the value of a header does not start another header", async () => {
  for (const value of ["a%0d%0aset-cookie:%20x=1", "a\u0085b", "\x1b[31mred"]) {
    const answer = await answerOf(
      `GET /v1/project?a=${encodeURIComponent(value)} HTTP/1.1\r\nhost: ${hostname}\r\nx-request-id: ${value}\r\norigin: ${value}\r\n\r\n`,
    );
    expect(answer.toLowerCase()).not.toContain("\r\nset-cookie");
    // Refused as a whole, or answered under an id of our own.
    expect(answer).toMatch(/^HTTP\/1\.1 400 |x-request-id: req_[0-9a-f]{24}\r\n/i);
  }
});

test("[8] a frame nested too deeply is malformed on both sockets, and is answered at once", async () => {
  const bomb = `{"type":"ping","id":"a","x":${"[".repeat(7_000)}${"]".repeat(7_000)}}`;
  const chat = await ChatClient.open(server.url, chatToken);
  for (let i = 0; i < 3; i++) chat.raw(bomb);
  await chat.closed();
  expect(chat.closeCode).toBe(4400);

  const closed = await new Promise<number>((done) => {
    const socket = new WebSocket(`${server.url.replace("http", "ws")}/v1/rtc?token=${rtcToken}`);
    socket.onopen = () => {
      for (let i = 0; i < 3; i++) socket.send(bomb);
    };
    socket.onclose = ({ code }) => done(code);
  });
  expect(closed).toBe(4400);
});

test("[8] a frame over the size limit closes only its own socket", async () => {
  const other = await ChatClient.open(server.url, chatToken);
  const chat = await ChatClient.open(server.url, chatToken);
  chat.raw("x".repeat(65_537));
  await chat.closed();
  expect(chat.closeCode).toBe(1009);
  expect((await other.ask("ping")).type).toBe("pong");
  await other.close();
});

test("[2] all guessed tokens get the same response, and no response repeats a token", async () => {
  const guesses = [
    ...Array.from({ length: 20 }, () => `svk_dev_${"a".repeat(16)}.${crypto.randomUUID()}`),
    `${server.key.slice(0, -1)}${server.key.endsWith("A") ? "B" : "A"}`,
    server.key.replace("svk_dev_", "svk_prod_"),
    server.key.split(".")[0] ?? "",
    "svk_dev_.",
  ];
  const answers = await Promise.all(
    guesses.map(async (guess) => {
      const response = await fetch(`${server.url}/v1/project`, { headers: { authorization: `Bearer ${guess}` } });
      const { requestId, ...said } = (await response.json()) as Record<string, unknown>;
      return JSON.stringify([response.status, said, typeof requestId]);
    }),
  );
  expect(new Set(answers).size).toBe(1);
  expect(answers[0]).toStartWith('[401,{"code":"SVC_AUTH_ERROR"');
});

test("[media] garbage and forged STUN over UDP get no response", async () => {
  let received = 0;
  const udp = await Bun.udpSocket({ hostname: "127.0.0.1", socket: { data: () => void received++ } });
  const binding = Buffer.alloc(20);
  binding.writeUInt16BE(0x0001, 0);
  binding.writeUInt32BE(0x2112a442, 4);
  const { body } = await server.call("GET", "/v1/diagnostics");
  expect(body.status).toBe("ok");
  const [target = 0] = server.media.ports;
  for (let i = 0; i < 2_000; i++) {
    const packet = i % 2 ? crypto.getRandomValues(Buffer.alloc(1 + (i % 1200))) : binding;
    udp.send(packet, target, "127.0.0.1");
    if (i % 200 === 0) await Bun.sleep(1);
  }
  // Earlier datagrams would have been answered by the time of an HTTP response.
  for (let i = 0; i < 5; i++) await alive();
  expect(received).toBe(0);
  udp.close();
});
