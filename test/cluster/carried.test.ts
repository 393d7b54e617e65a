import { expect, test } from "bun:test";
import { bundled, GREETING, unbundled } from "../../src/cluster/edge/bundles.ts";
import { carriedClient, carriedHeaders } from "../../src/cluster/edge/carried-client.ts";
import { CarriedSockets } from "../../src/cluster/edge/carried-sockets.ts";
import { EdgeSockets } from "../../src/cluster/edge/edge-sockets.ts";
import {
  decodeEdgeFrame,
  decodeLeaderFrame,
  type EdgeFrame,
  encodeEdgeFrame,
  encodeLeaderFrame,
  type LeaderFrame,
} from "../../src/cluster/edge/frames.ts";
import { createSockets, type TopicSocket } from "../../src/kernel/socket/sockets.ts";

const EDGE_FRAMES: EdgeFrame[] = [
  { type: "open", id: 1, arrival: { url: "http://x/v1/chat/ws?a=b c", headers: [["host", "x"]] } },
  { type: "text", id: 22, text: '{"type":"ping"}\nand more ' },
  { type: "bytes", id: 3, data: Buffer.from([0, 255, 10, 32]) },
  { type: "huge", id: 4, size: 900_000 },
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

test("what an edge and the leader say to each other arrives as it was said", () => {
  expect(EDGE_FRAMES.map((frame) => decodeEdgeFrame(encodeEdgeFrame(frame)))).toEqual(EDGE_FRAMES);
  expect(LEADER_FRAMES.map((frame) => decodeLeaderFrame(encodeLeaderFrame(frame)))).toEqual(LEADER_FRAMES);
});

test("what is said within one turn travels as one, what is large alone, and all of it in order", () => {
  const large = `t1 ${"ü".repeat(100_000)}`;
  const frames = ["p1 ", "t2 m3 5 ", large, "t3 \u{1f600}\n", "P0 a\n{}", ""];
  const sent: string[] = [];
  for (let at = 0; at < frames.length; ) {
    const { text, next } = bundled(frames, at);
    sent.push(text);
    at = next;
  }
  expect(sent).toHaveLength(3);
  expect(sent[1]).toBe(large);
  expect(sent.flatMap(unbundled)).toEqual(frames);
  expect(unbundled(GREETING)).toEqual([]);
  expect(() => unbundled("m12")).toThrow();
});

test("whoever has the credential says for whom a request is; what a client says itself is left out", () => {
  const own = new Request("http://x/", { headers: { "x-stoa-edge": "secret", "x-stoa-edge-client": "1.1.1.1" } });
  const carried = new Request("http://x/", { headers: carriedHeaders(own, "203.0.113.7", "secret") });
  expect(carriedClient(carried, "secret")).toBe("203.0.113.7");
  expect(carriedClient(carried, "another")).toBeNull();
  expect(carriedClient(new Request("http://x/"), "secret")).toBeNull();
});

/** One edge with sockets that were let in, and what the leader said to it. */
async function edge(count: number, { takesBundles = true } = {}) {
  const said: LeaderFrame[] = [];
  const sent: string[] = [];
  const state = { buffered: 0, closed: [] as number[], received: [] as string[] };
  const network: TopicSocket = {
    send(text) {
      sent.push(text);
      said.push(...unbundled(text).map(decodeLeaderFrame));
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
  const carried = new CarriedSockets(network, {
    carry: sockets.carry,
    takesBundles,
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
  const tell = (frame: EdgeFrame) => carried.received(encodeEdgeFrame(frame));
  for (let id = 1; id <= count; id++) tell({ type: "open", id, arrival: { url: "http://x/ws", headers: [] } });
  while (said.filter(({ type }) => type === "accept").length < count) await Bun.sleep(1);
  return { sockets, carried, opened, said, sent, state, tell };
}

test("a broadcast goes once to an edge, and not at all when nobody there reads it", async () => {
  const { sockets, opened, said, tell } = await edge(3);
  sockets.publish("news", "1");
  for (const socket of opened) socket.subscribe("news");
  sockets.publish("news", "2");
  opened[0]?.unsubscribe("news");
  tell({ type: "closed", id: 2, code: 1000 });
  sockets.publish("news", "3");
  tell({ type: "closed", id: 3, code: 1000 });
  sockets.publish("news", "4");
  opened[0]?.send("the last");
  while (said.at(-1)?.type !== "text") await Bun.sleep(1);
  const published = said.flatMap((frame) => (frame.type === "publish" ? [frame.text] : []));
  expect(published).toEqual(["2", "3"]);
});

test("an edge gets all of one turn at once, and one of an older version frame by frame", async () => {
  for (const takesBundles of [true, false]) {
    const { sockets, opened, said, sent, carried, state } = await edge(2, { takesBundles });
    expect(sent[0] === GREETING).toBe(takesBundles);
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
    expect(sent.length - sentBefore).toBe(takesBundles ? 1 : 5);
    // The other way: what its clients said at once.
    const texts = ["a", "b"].map((text, n) => encodeEdgeFrame({ type: "text", id: n + 1, text }));
    carried.received(takesBundles ? bundled(texts, 0).text : (texts[0] ?? ""));
    expect(state.received).toEqual(takesBundles ? ["a 1", "b 1"] : ["a 1"]);
  }
});

test("who is refused gets the answer; a frame too large for any protocol is told by its size", async () => {
  const { said, state, tell } = await edge(1);
  tell({ type: "open", id: 9, arrival: { url: "http://x/no", headers: [] } });
  tell({ type: "huge", id: 1, size: 900_000 });
  tell({ type: "text", id: 1, text: "grüße" });
  tell({ type: "text", id: 77, text: "of nobody" });
  while (!said.some(({ type }) => type === "refuse")) await Bun.sleep(1);
  expect(said.find(({ type }) => type === "refuse")).toMatchObject({ id: 9, refusal: { status: 403, body: "no" } });
  expect(state.received).toEqual(["null 900000", "grüße 7"]);
});

test("what an edge cannot take at once waits in order, and its end is the end of its sockets", async () => {
  const { carried, opened, said, state, tell } = await edge(2);
  const before = said.length;
  state.buffered = 2 * 1024 * 1024;
  for (const text of ["a", "b", "c"]) opened[0]?.send(text);
  expect(said.length).toBe(before);
  state.buffered = 0;
  opened[0]?.send("d");
  while (said.length < before + 4) await Bun.sleep(1);
  expect(said.slice(before)).toMatchObject(["a", "b", "c", "d"].map((text) => ({ type: "text", id: 1, text })));
  tell({ type: "buffered", id: 2, size: 70_000 });
  expect(opened.map(({ bufferedBytes }) => bufferedBytes)).toEqual([0, 70_000]);
  carried.closed();
  expect(state.closed).toEqual([1006, 1006]);
});

test("a client that went while the leader was told of it leaves nothing behind at the leader", () => {
  const said: EdgeFrame[] = [];
  const sockets = new EdgeSockets({
    say: (frame) => said.push(frame) > 0,
    credential: "secret",
    server: () => {
      throw new Error("nobody is there to be told");
    },
  });
  sockets.receive({ type: "accept", id: 7, headers: {} });
  expect(said).toEqual([{ type: "closed", id: 7, code: 1006 }]);
  sockets.close();
});
