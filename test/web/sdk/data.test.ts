import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import type { RtcRequest } from "../../../web/sdk/protocol.ts";
import { DataChannels } from "../../../web/sdk/room/peer/data.ts";
import { type NumberedFrame, ReliableDataBuffer } from "../../../web/sdk/room/peer/reliable-data-buffer.ts";
import type { Transport } from "../../../web/sdk/room/peer/transport.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

class Channel extends EventTarget {
  readyState = "connecting";
  readonly sent: string[] = [];
  readonly frames: NumberedFrame[] = [];
  constructor(
    readonly label: string,
    readonly options: RTCDataChannelInit = {},
  ) {
    super();
  }
  send(text: string): void {
    this.frames.push(JSON.parse(text));
    this.sent.push(JSON.parse(text).payload);
  }
  says(frame: object): void {
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
  }
  becomes(readyState: "open" | "closed"): void {
    this.readyState = readyState;
    this.dispatchEvent(new Event(readyState === "closed" ? "close" : "open"));
  }
}

function opened(kept = new ReliableDataBuffer()) {
  const channels: Channel[] = [];
  const bySocket: string[] = [];
  const acks: (() => void)[] = [];
  const closing = new AbortController();
  const transport = {
    ended: closing.signal,
    get closed() {
      return closing.signal.aborted;
    },
    close: () => closing.abort(),
    addChannel(label: string, options?: RTCDataChannelInit) {
      const channel = new Channel(label, options);
      channels.push(channel);
      return channel;
    },
  };
  const request = ((_type: string, { payload }: { payload: string }) => {
    bySocket.push(payload);
    return new Promise<object>((resolve) => acks.push(() => resolve({})));
  }) as RtcRequest;
  const heard: string[] = [];
  const data = new DataChannels(transport as unknown as Transport, request, kept, (message) => {
    heard.push(JSON.stringify(message));
  });
  const of = (label: string) => channels.filter((channel) => channel.label === label);
  return { data, transport, channels, of, bySocket, heard, ack: () => acks.shift()?.() };
}

async function settle(): Promise<void> {
  for (let n = 0; n < 20; n++) await Promise.resolve();
}

test("[9] what is sent over the socket first is there before what takes the channel that opened meanwhile", async () => {
  const { data, of, bySocket, ack } = opened();
  const [reliable] = of("reliable");
  const first = data.send("one", {});
  await settle();
  reliable?.becomes("open");
  const second = data.send("two", {});
  await settle();
  expect([bySocket, reliable?.sent]).toEqual([["one"], []]);
  ack();
  await Promise.all([first, second]);
  expect([bySocket, reliable?.sent]).toEqual([["one"], ["two"]]);
});

test("[9] reliable data never takes the lossy channel, also when the server has closed the other one; it is opened again", async () => {
  const { data, of, bySocket, ack, transport } = opened();
  for (const channel of [...of("reliable"), ...of("lossy")]) channel.becomes("open");
  await data.send("one", {});
  of("reliable")[0]?.becomes("closed");
  const second = data.send("two", {});
  await settle();
  ack();
  await second;
  jest.advanceTimersByTime(1_000);
  await settle();
  expect(of("reliable")).toHaveLength(2);
  of("reliable")[1]?.becomes("open");
  await data.send("three", {});
  await data.send("whatever", { reliable: false });
  // What went onto the first goes again with its number: the server passes it on once.
  expect(of("reliable").map(({ frames }) => frames.map(({ payload, seq }) => [payload, seq]))).toEqual([
    [["one", 1]],
    [
      ["one", 1],
      ["three", 2],
    ],
  ]);
  expect(bySocket).toEqual(["two"]);
  expect(of("lossy").map(({ sent, options }) => [sent, options.ordered, options.maxRetransmits])).toEqual([
    [["whatever"], false, 0],
  ]);
  of("reliable")[1]?.becomes("closed");
  transport.close();
  of("lossy")[0]?.becomes("closed");
  await settle();
  expect(jest.getTimerCount()).toBe(0);
  expect([of("reliable").length, of("lossy").length]).toEqual([2, 1]);
});

test("one message that is refused does not hold up the next", async () => {
  const { data, of } = opened();
  of("reliable")[0]?.becomes("open");
  const large = data.send("x".repeat(70_000), {});
  const small = data.send("small", {});
  expect(large).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
  await small;
  expect(of("reliable")[0]?.sent).toEqual(["small"]);
});

test("[9] a connection that is replaced: what may be lost with it goes again, numbered as before, and before anything else", async () => {
  const kept = new ReliableDataBuffer();
  const before = opened(kept);
  for (const channel of before.channels) channel.becomes("open");
  await before.data.send("one", { topic: "t" });
  await before.data.send("whatever", { reliable: false });
  await before.data.send("two", {});
  before.transport.close();
  const after = opened(kept);
  const third = after.data.send("three", {});
  await settle();
  expect(after.bySocket).toEqual([]);
  for (const channel of after.channels) channel.becomes("open");
  await third;
  const frames = (call: ReturnType<typeof opened>) => call.of("reliable").flatMap((channel) => channel.frames);
  expect(frames(after).map(({ payload, seq }) => [payload, seq])).toEqual([
    ["one", 1],
    ["two", 2],
    ["three", 3],
  ]);
  expect(frames(after).slice(0, 2)).toEqual(frames(before));
  expect(new Set(frames(after).map(({ stream }) => stream)).size).toBe(1);
  expect(after.of("lossy")[0]?.sent).toEqual([]);
});

test("[9] where no channel comes any more, the socket carries what is said after a while; nothing is kept for long", async () => {
  const kept = new ReliableDataBuffer();
  const before = opened(kept);
  before.of("reliable")[0]?.becomes("open");
  await before.data.send("one", {});
  before.transport.close();
  const after = opened(kept);
  void after.data.send("two", {});
  jest.advanceTimersByTime(14_000);
  await settle();
  expect(after.bySocket).toEqual([]);
  jest.advanceTimersByTime(2_000);
  await settle();
  expect(after.bySocket).toEqual(["two"]);
  expect(kept.unacknowledged()).toHaveLength(1);
  jest.setSystemTime(Date.now() + 31_000);
  expect(kept.unacknowledged()).toEqual([]);
});

test("[9] of a server that does not tell how far it is, no more is kept than it takes at once", () => {
  const kept = new ReliableDataBuffer();
  for (let n = 1; n <= 1_000; n++) kept.keep(String(n), n);
  expect([kept.unacknowledged().length, kept.unacknowledged().at(-1)]).toEqual([400, "1000"]);
  for (let n = 1; n <= 20; n++) kept.keep("x".repeat(60_000), 1_000 + n);
  expect(kept.unacknowledged()).toHaveLength(8);
});

test("what the server has heard is not sent again, and what it has not is, however long ago it was sent", async () => {
  const kept = new ReliableDataBuffer();
  const before = opened(kept);
  const [reliable] = before.of("reliable");
  reliable?.becomes("open");
  for (const payload of ["one", "two", "three"]) await before.data.send(payload, {});
  reliable?.says({ heard: 2 });
  before.transport.close();
  jest.setSystemTime(Date.now() + 60_000);
  const after = opened(kept);
  after.of("reliable")[0]?.becomes("open");
  expect(after.of("reliable")[0]?.frames.map(({ payload, seq }) => [payload, seq])).toEqual([["three", 3]]);
});

test("no more is handed to a channel than can be kept; the rest waits, and leaves on the next one, in order", async () => {
  const kept = new ReliableDataBuffer();
  const before = opened(kept);
  const [reliable] = before.of("reliable");
  reliable?.becomes("open");
  reliable?.says({ heard: 0 });
  const count = 1_000;
  const sending = Array.from({ length: count }, (_, n) => before.data.send(String(n), {}));
  for (let n = 0; n < 1_000; n++) await settle();
  expect(reliable?.sent).toHaveLength(400);
  reliable?.says({ heard: 100 });
  for (let n = 0; n < 1_000; n++) {
    jest.advanceTimersByTime(5);
    await settle();
  }
  expect(reliable?.sent).toHaveLength(500);
  before.transport.close();
  const after = opened(kept);
  const [next] = after.of("reliable");
  next?.becomes("open");
  let done = false;
  void Promise.all(sending).then(() => {
    done = true;
  });
  while (!done) {
    jest.advanceTimersByTime(5);
    next?.says({ heard: next.frames.at(-1)?.seq ?? 0 });
    await settle();
  }
  expect(before.bySocket).toEqual([]);
  expect(next?.sent).toEqual(Array.from({ length: count - 100 }, (_, n) => String(n + 100)));
});

test("what comes again is shown once; the next channel says what has come, and the server is told now and then", () => {
  const kept = new ReliableDataBuffer();
  const before = opened(kept);
  const [reliable] = before.of("reliable");
  expect(reliable?.options.protocol).toBe("numbered.0");
  reliable?.becomes("open");
  for (const seq of [1, 2, 3]) reliable?.says({ seq, from: "ann", payload: `${seq}` });
  expect(reliable?.frames).toEqual([]);
  jest.advanceTimersByTime(250);
  expect(reliable?.frames).toEqual([{ heard: 3 } as never]);
  reliable?.says({ seq: 4, from: "ann", payload: "4" });
  expect(reliable?.frames).toHaveLength(1);
  before.transport.close();
  const after = opened(kept);
  const [next] = after.of("reliable");
  expect(next?.options.protocol).toBe("numbered.4");
  next?.becomes("open");
  for (const seq of [4, 5]) next?.says({ seq, from: "ann", payload: `${seq}` });
  expect([...before.heard, ...after.heard].map((text) => JSON.parse(text))).toEqual(
    ["1", "2", "3", "4", "5"].map((payload) => ({ from: "ann", payload })),
  );
});

test("the server is told at once what is a lot", () => {
  const { of } = opened();
  const [reliable] = of("reliable");
  reliable?.becomes("open");
  for (let seq = 1; seq <= 10; seq++) reliable?.says({ seq, from: "ann", payload: "x".repeat(60_000) });
  expect(reliable?.frames).toEqual([{ heard: 5 }, { heard: 10 }] as never);
  expect(jest.getTimerCount()).toBe(0);
});

test("a server that numbers nothing is told nothing", () => {
  const { of, heard } = opened();
  const [reliable] = of("reliable");
  reliable?.becomes("open");
  reliable?.says({ from: null, payload: "x" });
  jest.advanceTimersByTime(1_000);
  expect([reliable?.frames, heard]).toEqual([[], [JSON.stringify({ from: null, payload: "x" })]]);
});
