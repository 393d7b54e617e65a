import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import type { DataTransport } from "../../../src/protocol/data/data-channels.ts";
import { type DataPacket, decodePacket, encodePacket } from "../../../src/protocol/data/data-packet.ts";
import { RoomData } from "../../../src/protocol/data/room-data.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

const textOf = (packet: DataPacket) => new TextDecoder().decode(packet.user?.payload);

class Channel extends EventTarget {
  readyState = "connecting";
  binaryType = "";
  /** The payloads of the packets. */
  readonly sent: string[] = [];
  /** Packets as payload and number, and acknowledgements. */
  readonly packets: unknown[] = [];
  constructor(
    readonly label: string,
    readonly options: RTCDataChannelInit = {},
  ) {
    super();
  }
  send(data: string | Uint8Array): void {
    if (typeof data === "string") {
      this.packets.push(JSON.parse(data));
      return;
    }
    const packet = decodePacket(data) as DataPacket;
    this.packets.push([textOf(packet), packet.sequence]);
    this.sent.push(textOf(packet));
  }
  receive(packet: DataPacket): void {
    this.dispatchEvent(new MessageEvent("message", { data: encodePacket(packet).buffer }));
  }
  acknowledge(heard: number): void {
    this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify({ heard }) }));
  }
  setState(readyState: "open" | "closed"): void {
    this.readyState = readyState;
    this.dispatchEvent(new Event(readyState === "closed" ? "close" : "open"));
  }
}

const message = (sequence: number, payload = String(sequence)) => ({
  from: "ann",
  sequence,
  user: { payload: new TextEncoder().encode(payload) },
});

/** A session without connection. */
function session() {
  const bySocket: string[] = [];
  const acks: (() => void)[] = [];
  const received: object[] = [];
  const data = new RoomData({
    encryption: null,
    present: () => [],
    newId: () => "id",
    publisherOf: () => undefined,
    onCaption: () => {},
    onLeftOut: () => {},
    onError: () => {},
    sendBySocket: ({ payload }) => {
      bySocket.push(payload);
      return new Promise<object>((resolve) => acks.push(() => resolve({})));
    },
    onMessage: ({ from, payload }) => received.push({ from, payload }),
    fail: (code, text) => Object.assign(new Error(text), { code }),
  });
  const send = (payload: string | Uint8Array, options = {}) => data.sendData(payload, options);
  return { data, send, bySocket, received, ack: () => acks.shift()?.() };
}

/** A new connection of a session. */
function opened(of = session()) {
  const channels: Channel[] = [];
  const closing = new AbortController();
  const transport = {
    ended: closing.signal,
    addChannel(label: string, options?: RTCDataChannelInit) {
      const channel = new Channel(label, options);
      channels.push(channel);
      return channel;
    },
  };
  of.data.connect(transport as unknown as DataTransport);
  const labelled = (label: string) => channels.filter((channel) => channel.label === label);
  return { ...of, session: of, close: () => closing.abort(), channels, of: labelled };
}

async function settle(): Promise<void> {
  for (let n = 0; n < 30; n++) await Promise.resolve();
}

test("[9] a message on the socket is acknowledged before the next one uses the channel that has opened meanwhile", async () => {
  const { send, of, bySocket, ack } = opened();
  const [reliable] = of("reliable");
  const first = send("one");
  await settle();
  reliable?.setState("open");
  const second = send("two");
  await settle();
  expect([bySocket, reliable?.sent]).toEqual([["one"], []]);
  ack();
  await Promise.all([first, second]);
  expect([bySocket, reliable?.sent]).toEqual([["one"], ["two"]]);
});

test("[9] reliable data never uses the lossy channel, and a reliable channel that the server closes is opened again", async () => {
  const { send, of, bySocket, ack, close } = opened();
  for (const channel of [...of("reliable"), ...of("lossy")]) channel.setState("open");
  await send("one");
  of("reliable")[0]?.setState("closed");
  const second = send("two");
  await settle();
  ack();
  await second;
  jest.advanceTimersByTime(1_000);
  expect(of("reliable")).toHaveLength(2);
  of("reliable")[1]?.setState("open");
  await send("three");
  await send("whatever", { reliable: false });
  // The message of the first channel is repeated with its number, so the server delivers it once.
  expect(of("reliable").map(({ packets }) => packets)).toEqual([
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
  close();
  of("lossy")[0]?.setState("closed");
  await settle();
  expect(jest.getTimerCount()).toBe(0);
  expect([of("reliable").length, of("lossy").length]).toEqual([2, 1]);
});

test("a message that is too large does not block the next", async () => {
  const { send, of } = opened();
  of("reliable")[0]?.setState("open");
  const large = send("x".repeat(70_000));
  const small = send("small");
  expect(large).rejects.toMatchObject({ code: "PAYLOAD_TOO_LARGE" });
  await small;
  expect(of("reliable")[0]?.packets).toEqual([["small", 1]]);
});

test("[9] after a replaced connection unacknowledged messages are repeated first, with the same numbers", async () => {
  const before = opened();
  for (const channel of before.channels) channel.setState("open");
  await before.send("one", { topic: "t" });
  await before.send("whatever", { reliable: false });
  await before.send("two");
  before.close();
  const after = opened(before.session);
  const third = after.send("three");
  await settle();
  expect(after.bySocket).toEqual([]);
  for (const channel of after.channels) channel.setState("open");
  await third;
  expect(after.of("reliable")[0]?.packets).toEqual([
    ["one", 1],
    ["two", 2],
    ["three", 3],
  ]);
  expect(after.of("lossy")[0]?.sent).toEqual([]);
});

test("[9] if no channel opens in time, text goes over the socket, and bytes fail", async () => {
  const before = opened();
  before.of("reliable")[0]?.setState("open");
  await before.send("one");
  before.close();
  const after = opened(before.session);
  void after.send("two");
  jest.advanceTimersByTime(14_000);
  await settle();
  expect(after.bySocket).toEqual([]);
  jest.advanceTimersByTime(2_000);
  await settle();
  expect(after.bySocket).toEqual(["two"]);
  after.ack();
  const bytes = after.send(Uint8Array.of(0xff)).catch(({ code }) => code);
  await settle();
  jest.advanceTimersByTime(16_000);
  expect(await bytes).toBe("PAYLOAD_TOO_LARGE");
});

test("bytes wait for their channel, and messages after them too", async () => {
  const { send, of, bySocket } = opened();
  const sent = Promise.all([send(Uint8Array.of(0xff)), send("text")]);
  await settle();
  of("reliable")[0]?.setState("open");
  await sent;
  expect([of("reliable")[0]?.sent, bySocket]).toEqual([["\ufffd", "text"], []]);
});

test("only unacknowledged messages are repeated, however old they are", async () => {
  const before = opened();
  const [reliable] = before.of("reliable");
  reliable?.setState("open");
  for (const payload of ["one", "two", "three"]) await before.send(payload);
  reliable?.acknowledge(2);
  before.close();
  jest.setSystemTime(Date.now() + 60_000);
  const after = opened(before.session);
  after.of("reliable")[0]?.setState("open");
  expect(after.of("reliable")[0]?.packets).toEqual([["three", 3]]);
});

test("messages beyond the buffer's size wait and are sent in order, even on the next channel", async () => {
  const before = opened();
  const [reliable] = before.of("reliable");
  reliable?.setState("open");
  const count = 1_000;
  const sending = Array.from({ length: count }, (_, n) => before.send(String(n)));
  for (let n = 0; n < 1_000; n++) await settle();
  expect(reliable?.sent).toHaveLength(400);
  reliable?.acknowledge(100);
  for (let n = 0; n < 200; n++) await settle();
  expect(reliable?.sent).toHaveLength(500);
  before.close();
  const after = opened(before.session);
  const [next] = after.of("reliable");
  next?.setState("open");
  let done = false;
  void Promise.all(sending).then(() => {
    done = true;
  });
  while (!done) {
    next?.acknowledge(100 + next.sent.length);
    await settle();
  }
  expect(before.bySocket).toEqual([]);
  expect(next?.sent).toEqual(Array.from({ length: count - 100 }, (_, n) => String(n + 100)));
});

test("duplicates are delivered once, and received messages are acknowledged with a delay and on the next channel", () => {
  const before = opened();
  const [reliable] = before.of("reliable");
  expect(reliable?.options.protocol).toBe("packets.0");
  reliable?.setState("open");
  for (const seq of [1, 2, 3]) reliable?.receive(message(seq));
  expect(reliable?.packets).toEqual([]);
  jest.advanceTimersByTime(250);
  expect(reliable?.packets).toEqual([{ heard: 3 }]);
  reliable?.receive(message(4));
  expect(reliable?.packets).toHaveLength(1);
  before.close();
  const after = opened(before.session);
  const [next] = after.of("reliable");
  expect(next?.options.protocol).toBe("packets.4");
  next?.setState("open");
  for (const seq of [4, 5]) next?.receive(message(seq));
  expect(before.received).toEqual(["1", "2", "3", "4", "5"].map((payload) => ({ from: "ann", payload })));
});

test("a large amount of received data is acknowledged at once", () => {
  const { of } = opened();
  const [reliable] = of("reliable");
  reliable?.setState("open");
  for (let seq = 1; seq <= 10; seq++) reliable?.receive(message(seq, "x".repeat(60_000)));
  expect(reliable?.packets).toEqual([{ heard: 5 }, { heard: 10 }]);
  expect(jest.getTimerCount()).toBe(0);
});

test("messages without a number are not acknowledged, and a lossy one cannot have one", () => {
  const { of, received } = opened();
  const [[reliable], [lossy]] = [of("reliable"), of("lossy")];
  reliable?.setState("open");
  reliable?.receive({ user: { payload: new TextEncoder().encode("x") } });
  lossy?.receive(message(9_999));
  reliable?.receive(message(1));
  jest.advanceTimersByTime(1_000);
  expect(reliable?.packets).toEqual([{ heard: 1 }]);
  expect(received).toEqual([
    { from: null, payload: "x" },
    { from: "ann", payload: "9999" },
    { from: "ann", payload: "1" },
  ]);
});

test("[2] without permission nothing is sent, and with it again the same channels are used", async () => {
  const { data, send, of, channels } = opened();
  for (const channel of channels) channel.setState("open");
  data.permit(false);
  for (const reliable of [true, false]) {
    expect(send("x", { reliable })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  }
  await settle();
  data.permit(true);
  await send("y");
  expect([of("reliable").map(({ sent }) => sent), data.isConnected]).toEqual([[["y"]], true]);
});

test("a new session starts with new numbers, and what waited for the last one fails", async () => {
  const before = opened();
  before.of("reliable")[0]?.setState("open");
  await before.send("one");
  before.close();
  const late = before.send("late").catch(({ code }) => code);
  await settle();
  before.data.newSession();
  expect(await late).toBe("NOT_CONNECTED");
  const after = opened(before.session);
  after.of("reliable")[0]?.setState("open");
  await after.send("first");
  expect(after.of("reliable")[0]?.packets).toEqual([["first", 1]]);
  before.data.close();
  expect(after.send("never")).rejects.toMatchObject({ code: "NOT_CONNECTED" });
});
