import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import type { RtcRequest } from "../../web/sdk/dialect.ts";
import { DataChannels } from "../../web/sdk/room/data.ts";
import type { Transport } from "../../web/sdk/room/transport.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

class Channel extends EventTarget {
  readyState = "connecting";
  readonly sent: string[] = [];
  constructor(
    readonly label: string,
    readonly options: RTCDataChannelInit = {},
  ) {
    super();
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text).payload);
  }
  becomes(readyState: "open" | "closed"): void {
    this.readyState = readyState;
    if (readyState === "closed") this.dispatchEvent(new Event("close"));
  }
}

function opened() {
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
  const data = new DataChannels(transport as unknown as Transport, request, () => {});
  const of = (label: string) => channels.filter((channel) => channel.label === label);
  return { data, transport, channels, of, bySocket, ack: () => acks.shift()?.() };
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
  expect(of("reliable").map(({ sent }) => sent)).toEqual([["one"], ["three"]]);
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
