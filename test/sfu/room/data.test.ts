import { beforeEach, describe, expect, test } from "bun:test";
import { DataRelay } from "../../../src/sfu/room/data.ts";
import type { DataChannel } from "../../../src/sfu/transport/werift-hooks.ts";

type FakeChannel = DataChannel & { sent: string[]; bufferedAmount: number; isOpen: boolean };

function channel(label: string): FakeChannel {
  const fake: FakeChannel = {
    label,
    isOpen: true,
    bufferedAmount: 0,
    sent: [],
    send: (text) => {
      fake.sent.push(text);
      fake.bufferedAmount += text.length;
    },
    close: () => {
      fake.isOpen = false;
    },
  };
  return fake;
}

describe("data of one participant", () => {
  let nowMs: number;
  let relayed: { kind: string; frame: unknown }[];
  let owner: { self: { identity: string }; permissions: { publishData: boolean } };
  let data: DataRelay;

  beforeEach(() => {
    nowMs = 1_000_000;
    relayed = [];
    owner = { self: { identity: "ann" }, permissions: { publishData: true } };
    data = new DataRelay({ relay: (_from, kind, frame) => relayed.push({ kind, frame }) > 0 }, owner, () => nowMs);
  });

  const deliver = (kind: "reliable" | "lossy", payload: string) =>
    data.deliver(kind, { from: "ben", payload }, JSON.stringify({ from: "ben", payload }));

  test("a frame is relayed with its kind", () => {
    data.received(channel("lossy"), JSON.stringify({ payload: "x", topic: "t", to: ["ben"] }));
    expect(relayed).toEqual([{ kind: "lossy", frame: { payload: "x", topic: "t", to: ["ben"] } }]);
  });

  test.each([
    ["not JSON", "{"],
    ["no payload", "{}"],
    ["a payload that is no string", JSON.stringify({ payload: 1 })],
    ["an empty list of recipients", JSON.stringify({ payload: "x", to: [] })],
    ["a frame of 65,537 bytes", JSON.stringify({ payload: "x".repeat(65_537 - '{"payload":""}'.length) })],
  ])("%s is refused", (_, text) => {
    data.received(channel("reliable"), text);
    expect(relayed).toEqual([]);
    expect(data.refused).toBe(1);
  });

  test("a frame of 65,536 bytes passes; bytes count, not characters", () => {
    data.received(channel("reliable"), JSON.stringify({ payload: "x".repeat(65_536 - '{"payload":""}'.length) }));
    expect(relayed).toHaveLength(1);
    data.received(channel("reliable"), JSON.stringify({ payload: "é".repeat(40_000) }));
    expect(relayed).toHaveLength(1);
  });

  test("binary frames and other channels are refused", () => {
    data.received(channel("reliable"), Buffer.from('{"payload":"x"}'));
    data.received(channel("chat"), '{"payload":"x"}');
    expect(relayed).toEqual([]);
    const other = channel("chat");
    data.opened(other);
    expect(other.isOpen).toBe(false);
  });

  test("[2] without publishData nothing is relayed", () => {
    owner.permissions.publishData = false;
    data.received(channel("reliable"), '{"payload":"x"}');
    expect(relayed).toEqual([]);
  });

  test("a flood is cut off and forgiven later", () => {
    for (let i = 0; i < 2_000; i++) data.received(channel("lossy"), '{"payload":"x"}');
    expect(relayed.length).toBe(500);
    nowMs += 1_000;
    data.received(channel("lossy"), '{"payload":"later"}');
    expect(relayed.at(-1)?.frame).toEqual({ payload: "later" });
  });

  test("without a channel the socket has to deliver", () => {
    expect(deliver("reliable", "x")).toBe(false);
    const closed = channel("reliable");
    data.opened(closed);
    closed.isOpen = false;
    expect(deliver("reliable", "x")).toBe(false);
  });

  test("a slow reader loses lossy data, and gets reliable data later and in order", () => {
    const reliable = channel("reliable");
    const lossy = channel("lossy");
    data.opened(reliable);
    data.opened(lossy);
    for (let i = 0; i < 100; i++) {
      expect(deliver("reliable", `${i}`.padEnd(10_000))).toBe(true);
      expect(deliver("lossy", "y".repeat(10_000))).toBe(true);
    }
    expect(lossy.sent.length).toBeLessThan(10);
    expect(data.lost).toBe(100 - lossy.sent.length);
    expect(reliable.sent.length).toBeLessThan(10);
    for (let i = 0; i < 50; i++) {
      reliable.bufferedAmount = 0;
      data.tick();
    }
    expect(reliable.sent.map((text) => Number.parseInt(JSON.parse(text).payload, 10))).toEqual(
      Array.from({ length: 100 }, (_, i) => i),
    );
  });

  test("a reader that never reads has its reliable channel closed, not the memory filled", () => {
    const reliable = channel("reliable");
    data.opened(reliable);
    for (let i = 0; i < 600; i++) deliver("reliable", "x".repeat(10_000));
    expect(reliable.isOpen).toBe(false);
    expect(deliver("reliable", "x")).toBe(false);
  });
});
