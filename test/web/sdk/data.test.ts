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
  receive(frame: object): void {
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(frame) }));
  }
  setState(readyState: "open" | "closed"): void {
    this.readyState = readyState;
    this.dispatchEvent(new Event(readyState === "closed" ? "close" : "open"));
  }
}

function opened(buffer = new ReliableDataBuffer()) {
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
  const received: string[] = [];
  const data = new DataChannels(transport as unknown as Transport, request, buffer, (message) => {
    received.push(JSON.stringify(message));
  });
  const of = (label: string) => channels.filter((channel) => channel.label === label);
  return { data, transport, channels, of, bySocket, received, ack: () => acks.shift()?.() };
}

async function settle(): Promise<void> {
  for (let n = 0; n < 20; n++) await Promise.resolve();
}

test("[9] a message on the socket is acknowledged before the next one uses the channel that has opened meanwhile", async () => {
  const { data, of, bySocket, ack } = opened();
  const [reliable] = of("reliable");
  const first = data.send("one", {});
  await settle();
  reliable?.setState("open");
  const second = data.send("two", {});
  await settle();
  expect([bySocket, reliable?.sent]).toEqual([["one"], []]);
  ack();
  await Promise.all([first, second]);
  expect([bySocket, reliable?.sent]).toEqual([["one"], ["two"]]);
});

test("[9] reliable data never uses the lossy channel, and a reliable channel that the server closes is opened again", async () => {
  const { data, of, bySocket, ack, transport } = opened();
  for (const channel of [...of("reliable"), ...of("lossy")]) channel.setState("open");
  await data.send("one", {});
  of("reliable")[0]?.setState("closed");
  const second = data.send("two", {});
  await settle();
  ack();
  await second;
  jest.advanceTimersByTime(1_000);
  await settle();
  expect(of("reliable")).toHaveLength(2);
  of("reliable")[1]?.setState("open");
  await data.send("three", {});
  await data.send("whatever", { reliable: false });
  // The message of the first channel is repeated with its number, so the server delivers it once.
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
  of("reliable")[1]?.setState("closed");
  transport.close();
  of("lossy")[0]?.setState("closed");
  await settle();
  expect(jest.getTimerCount()).toBe(0);
  expect([of("reliable").length, of("lossy").length]).toEqual([2, 1]);
});

test("a message that is too large does not block the next", async () => {
  const { data, of } = opened();
  of("reliable")[0]?.setState("open");
  const large = data.send("x".repeat(70_000), {});
  const small = data.send("small", {});
  expect(large).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
  await small;
  expect(of("reliable")[0]?.sent).toEqual(["small"]);
});

test("[9] after a replaced connection unacknowledged messages are repeated first, with the same numbers", async () => {
  const buffer = new ReliableDataBuffer();
  const before = opened(buffer);
  for (const channel of before.channels) channel.setState("open");
  await before.data.send("one", { topic: "t" });
  await before.data.send("whatever", { reliable: false });
  await before.data.send("two", {});
  before.transport.close();
  const after = opened(buffer);
  const third = after.data.send("three", {});
  await settle();
  expect(after.bySocket).toEqual([]);
  for (const channel of after.channels) channel.setState("open");
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

test("[9] messages fall back to the socket if no channel opens in time, and the buffer expires", async () => {
  const buffer = new ReliableDataBuffer();
  const before = opened(buffer);
  before.of("reliable")[0]?.setState("open");
  await before.data.send("one", {});
  before.transport.close();
  const after = opened(buffer);
  void after.data.send("two", {});
  jest.advanceTimersByTime(14_000);
  await settle();
  expect(after.bySocket).toEqual([]);
  jest.advanceTimersByTime(2_000);
  await settle();
  expect(after.bySocket).toEqual(["two"]);
  expect(buffer.unacknowledged()).toHaveLength(1);
  jest.setSystemTime(Date.now() + 31_000);
  expect(buffer.unacknowledged()).toEqual([]);
});

test("[9] without acknowledgements the buffer keeps no more than the server accepts at once", () => {
  const buffer = new ReliableDataBuffer();
  for (let n = 1; n <= 1_000; n++) buffer.keep(String(n), n);
  expect([buffer.unacknowledged().length, buffer.unacknowledged().at(-1)]).toEqual([400, "1000"]);
  for (let n = 1; n <= 20; n++) buffer.keep("x".repeat(60_000), 1_000 + n);
  expect(buffer.unacknowledged()).toHaveLength(8);
});

test("only unacknowledged messages are repeated, however old they are", async () => {
  const buffer = new ReliableDataBuffer();
  const before = opened(buffer);
  const [reliable] = before.of("reliable");
  reliable?.setState("open");
  for (const payload of ["one", "two", "three"]) await before.data.send(payload, {});
  reliable?.receive({ heard: 2 });
  before.transport.close();
  jest.setSystemTime(Date.now() + 60_000);
  const after = opened(buffer);
  after.of("reliable")[0]?.setState("open");
  expect(after.of("reliable")[0]?.frames.map(({ payload, seq }) => [payload, seq])).toEqual([["three", 3]]);
});

test("messages beyond the buffer's size wait and are sent in order, also on the next channel", async () => {
  const buffer = new ReliableDataBuffer();
  const before = opened(buffer);
  const [reliable] = before.of("reliable");
  reliable?.setState("open");
  reliable?.receive({ heard: 0 });
  const count = 1_000;
  const sending = Array.from({ length: count }, (_, n) => before.data.send(String(n), {}));
  for (let n = 0; n < 1_000; n++) await settle();
  expect(reliable?.sent).toHaveLength(400);
  reliable?.receive({ heard: 100 });
  for (let n = 0; n < 1_000; n++) {
    jest.advanceTimersByTime(5);
    await settle();
  }
  expect(reliable?.sent).toHaveLength(500);
  before.transport.close();
  const after = opened(buffer);
  const [next] = after.of("reliable");
  next?.setState("open");
  let done = false;
  void Promise.all(sending).then(() => {
    done = true;
  });
  while (!done) {
    jest.advanceTimersByTime(5);
    next?.receive({ heard: next.frames.at(-1)?.seq ?? 0 });
    await settle();
  }
  expect(before.bySocket).toEqual([]);
  expect(next?.sent).toEqual(Array.from({ length: count - 100 }, (_, n) => String(n + 100)));
});

test("duplicates are delivered once, and received messages are acknowledged with a delay and on the next channel", () => {
  const buffer = new ReliableDataBuffer();
  const before = opened(buffer);
  const [reliable] = before.of("reliable");
  expect(reliable?.options.protocol).toBe("numbered.0");
  reliable?.setState("open");
  for (const seq of [1, 2, 3]) reliable?.receive({ seq, from: "ann", payload: `${seq}` });
  expect(reliable?.frames).toEqual([]);
  jest.advanceTimersByTime(250);
  expect(reliable?.frames).toEqual([{ heard: 3 } as never]);
  reliable?.receive({ seq: 4, from: "ann", payload: "4" });
  expect(reliable?.frames).toHaveLength(1);
  before.transport.close();
  const after = opened(buffer);
  const [next] = after.of("reliable");
  expect(next?.options.protocol).toBe("numbered.4");
  next?.setState("open");
  for (const seq of [4, 5]) next?.receive({ seq, from: "ann", payload: `${seq}` });
  expect([...before.received, ...after.received].map((text) => JSON.parse(text))).toEqual(
    ["1", "2", "3", "4", "5"].map((payload) => ({ from: "ann", payload })),
  );
});

test("a large amount of received data is acknowledged at once", () => {
  const { of } = opened();
  const [reliable] = of("reliable");
  reliable?.setState("open");
  for (let seq = 1; seq <= 10; seq++) reliable?.receive({ seq, from: "ann", payload: "x".repeat(60_000) });
  expect(reliable?.frames).toEqual([{ heard: 5 }, { heard: 10 }] as never);
  expect(jest.getTimerCount()).toBe(0);
});

test("messages without a number are not acknowledged", () => {
  const { of, received } = opened();
  const [reliable] = of("reliable");
  reliable?.setState("open");
  reliable?.receive({ from: null, payload: "x" });
  jest.advanceTimersByTime(1_000);
  expect([reliable?.frames, received]).toEqual([[], [JSON.stringify({ from: null, payload: "x" })]]);
});
