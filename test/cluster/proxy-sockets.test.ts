import { expect, test } from "bun:test";
import { forwardedClientAddress, forwardedHeaders } from "../../src/cluster/proxy/forwarded-requests.ts";
import { ForwardedSockets } from "../../src/cluster/proxy/forwarded-sockets.ts";
import {
  BATCH_GREETING,
  decodeLeaderFrame,
  decodeProxyFrame,
  encodeLeaderFrame,
  encodeProxyFrame,
  framesOf,
  type LeaderFrame,
  nextBatch,
  type ProxyFrame,
} from "../../src/cluster/proxy/frames.ts";
import { ProxySockets } from "../../src/cluster/proxy/proxy-sockets.ts";
import { createSockets, type TopicSocket } from "../../src/kernel/socket/sockets.ts";

const EDGE_FRAMES: ProxyFrame[] = [
  { type: "open", id: 1, upgradeRequest: { url: "http://x/v1/chat/ws?a=b c", headers: [["host", "x"]] } },
  { type: "text", id: 22, text: '{"type":"ping"}\nand more ' },
  { type: "bytes", id: 3, data: Buffer.from([0, 255, 10, 32]) },
  { type: "oversized", id: 4, size: 900_000 },
  { type: "pong", id: 5 },
  { type: "buffered", id: 6, size: 70_000 },
  { type: "closed", id: 7, code: 1001 },
];
const LEADER_FRAMES: LeaderFrame[] = [
  { type: "accept", id: 1, headers: { "sec-websocket-protocol": "stoa.again" } },
  { type: "refuse", id: 2, refusal: { status: 401, headers: [["a", "b"]], body: "no\nno" } },
  { type: "text", id: 3, text: " {}" },
  { type: "bytes", id: 4, data: Buffer.from([1, 2, 3]) },
  { type: "ping", id: 5 },
  { type: "subscribe", id: 6, topic: "chat 0199" },
  { type: "unsubscribe", id: 7, topic: "chat 0199" },
  { type: "close", id: 8, code: 4001, reason: "token revoked, for good" },
  { type: "publish", topic: "chat 0199", text: '{"text":"two\\nlines"}\n' },
];

test("every frame between a proxy and the leader decodes to what was encoded", () => {
  expect(EDGE_FRAMES.map((frame) => decodeProxyFrame(encodeProxyFrame(frame)))).toEqual(EDGE_FRAMES);
  expect(LEADER_FRAMES.map((frame) => decodeLeaderFrame(encodeLeaderFrame(frame)))).toEqual(LEADER_FRAMES);
});

test("small frames travel in one batch, large frames alone, and all of them in order", () => {
  const large = `t1 ${"ü".repeat(100_000)}`;
  const frames = ["p1 ", "t2 m3 5 ", large, "t3 \u{1f600}\n", "P0 a\n{}", ""];
  const sent: string[] = [];
  for (let at = 0; at < frames.length; ) {
    const { text, next } = nextBatch(frames, at);
    sent.push(text);
    at = next;
  }
  expect(sent).toHaveLength(3);
  expect(sent[1]).toBe(large);
  expect(sent.flatMap(framesOf)).toEqual(frames);
  expect(framesOf(BATCH_GREETING)).toEqual([]);
  expect(() => framesOf("m12")).toThrow();
});

test("only the credential makes a client address count, and a client's own headers are dropped", () => {
  const own = new Request("http://x/", { headers: { "x-stoa-edge": "secret", "x-stoa-edge-client": "1.1.1.1" } });
  const forwarded = new Request("http://x/", { headers: forwardedHeaders(own.headers, "203.0.113.7", "secret") });
  expect(forwardedClientAddress(forwarded, (token) => token === "secret")).toBe("203.0.113.7");
  expect(forwardedClientAddress(forwarded, (token) => token === "another")).toBeNull();
  expect(forwardedClientAddress(new Request("http://x/"), () => true)).toBeNull();
});

/** A proxy with accepted sockets, and the frames that the leader sent to it. */
async function proxy(count: number, { takesBatches = true } = {}) {
  const said: LeaderFrame[] = [];
  const sent: string[] = [];
  const state = { buffered: 0, closed: [] as number[], received: [] as string[] };
  const network: TopicSocket = {
    send(text) {
      sent.push(text);
      said.push(...framesOf(text).map(decodeLeaderFrame));
    },
    sendTogether: () => {},
    sendBytes: () => {},
    close: () => {},
    ping: () => {},
    subscribe: () => {},
    unsubscribe: () => {},
    get bufferedBytes() {
      return state.buffered;
    },
  };
  const sockets = createSockets();
  const opened: TopicSocket[] = [];
  const forwarded = new ForwardedSockets(network, {
    carry: sockets.carry,
    takesBatches,
    onClosed: () => {},
    async handle(request) {
      if (request.url.endsWith("/no")) return new Response("no", { status: 403 });
      sockets.accept(null, request, {}, (socket) => {
        opened.push(socket);
        return {
          received: (text, bytes) => void state.received.push(`${text} ${bytes}`),
          closed: (code) => void state.closed.push(code),
        };
      });
      return new Response();
    },
  });
  const receive = (frame: ProxyFrame) => forwarded.received(encodeProxyFrame(frame));
  for (let id = 1; id <= count; id++)
    receive({ type: "open", id, upgradeRequest: { url: "http://x/ws", headers: [] } });
  while (said.filter(({ type }) => type === "accept").length < count) await Bun.sleep(1);
  return { sockets, forwarded, opened, said, sent, state, receive };
}

test("a broadcast goes once to a proxy, and not at all without a subscriber there", async () => {
  const { sockets, opened, said, receive } = await proxy(3);
  sockets.publish("news", "1");
  for (const socket of opened) socket.subscribe("news");
  sockets.publish("news", "2");
  opened[0]?.unsubscribe("news");
  receive({ type: "closed", id: 2, code: 1000 });
  sockets.publish("news", "3");
  receive({ type: "closed", id: 3, code: 1000 });
  sockets.publish("news", "4");
  opened[0]?.send("the last");
  while (said.at(-1)?.type !== "text") await Bun.sleep(1);
  const published = said.flatMap((frame) => (frame.type === "publish" ? [frame.text] : []));
  expect(published).toEqual(["2", "3"]);
});

test("a proxy gets the frames of one tick as one batch, and an older one frame by frame", async () => {
  for (const takesBatches of [true, false]) {
    const { sockets, opened, said, sent, forwarded, state } = await proxy(2, { takesBatches });
    expect(sent[0] === BATCH_GREETING).toBe(takesBatches);
    const [framesBefore, sentBefore] = [said.length, sent.length];
    for (const socket of opened) socket.subscribe("news");
    sockets.publish("news", "1");
    opened[1]?.send("2");
    sockets.publish("news", "3");
    while (said.length < framesBefore + 5) await Bun.sleep(1);
    expect(said.slice(framesBefore).map(({ type }) => type)).toEqual([
      "subscribe",
      "subscribe",
      "publish",
      "text",
      "publish",
    ]);
    expect(sent.length - sentBefore).toBe(takesBatches ? 1 : 5);
    // The other direction works alike.
    const texts = ["a", "b"].map((text, n) => encodeProxyFrame({ type: "text", id: n + 1, text }));
    forwarded.received(takesBatches ? nextBatch(texts, 0).text : (texts[0] ?? ""));
    expect(state.received).toEqual(takesBatches ? ["a 1", "b 1"] : ["a 1"]);
  }
});

test("a refused client gets the leader's response, and of an oversized frame only the size is sent", async () => {
  const { said, state, receive } = await proxy(1);
  receive({ type: "open", id: 9, upgradeRequest: { url: "http://x/no", headers: [] } });
  receive({ type: "oversized", id: 1, size: 900_000 });
  receive({ type: "text", id: 1, text: "grüße" });
  receive({ type: "text", id: 77, text: "of nobody" });
  while (!said.some(({ type }) => type === "refuse")) await Bun.sleep(1);
  expect(said.find(({ type }) => type === "refuse")).toMatchObject({ id: 9, refusal: { status: 403, body: "no" } });
  expect(state.received).toEqual(["null 900000", "grüße 7"]);
});

test("frames for a slow proxy wait in order, and its sockets close with its connection", async () => {
  const { forwarded, opened, said, state, receive } = await proxy(2);
  const before = said.length;
  state.buffered = 2 * 1024 * 1024;
  for (const text of ["a", "b", "c"]) opened[0]?.send(text);
  expect(said.length).toBe(before);
  state.buffered = 0;
  opened[0]?.send("d");
  while (said.length < before + 4) await Bun.sleep(1);
  expect(said.slice(before)).toMatchObject(["a", "b", "c", "d"].map((text) => ({ type: "text", id: 1, text })));
  receive({ type: "buffered", id: 2, size: 70_000 });
  expect(opened.map(({ bufferedBytes }) => bufferedBytes)).toEqual([0, 70_000]);
  forwarded.closed();
  expect(state.closed).toEqual([1006, 1006]);
});

test("the leader drops the socket of a client that left before it was accepted", () => {
  const said: ProxyFrame[] = [];
  const sockets = new ProxySockets({
    send: (frame) => said.push(frame) > 0,
    token: () => "secret",
    server: () => {
      throw new Error("no socket is open");
    },
  });
  sockets.receive({ type: "accept", id: 7, headers: {} });
  expect(said).toEqual([{ type: "closed", id: 7, code: 1006 }]);
  sockets.close();
});
