import { beforeEach, describe, expect, test } from "bun:test";
import {
  ChatMessage,
  DataPacket,
  DataStream_ByteHeader,
  DataStream_Chunk,
  DataStream_Header,
  DataStream_TextHeader,
  UserPacket,
} from "@livekit/protocol";
import { encodePacket } from "../../../src/protocol/data/data-packet.ts";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { DataMessage } from "../../../src/sfu/room/data-message.ts";
import { DataBudget, type DataOwner, DataRelay, ROOM_RATES } from "../../../src/sfu/room/data-relay.ts";
import type { ParticipantHost } from "../../../src/sfu/room/host.ts";
import { readDataPacket } from "../../../src/sfu/room/livekit-data-packet.ts";
import { Room } from "../../../src/sfu/room/room.ts";
import type { DataChannel } from "../../../src/sfu/werift/werift-hooks.ts";

type FakeChannel = DataChannel & { sent: (string | Buffer)[]; bufferedAmount: number; isOpen: boolean };

function channel(label: string, protocol = ""): FakeChannel {
  const fake: FakeChannel = {
    label,
    protocol,
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

test("a request of the server gets one acknowledgement and one response, from the participant that was asked", () => {
  const now = () => 0;
  const host = { now, emit() {}, udp: { repairs: {}, path: typescriptPath } } as unknown as ParticipantHost;
  const room = new Room(host, { roomId: "room", audibleVoices: 2 });
  const answered: string[] = [];
  const answers = (identity: string) => {
    const self = { identity, participantId: identity };
    const packet = readDataPacket(Buffer.from(encodePacket({ to: ["q"], response: { id: "q", payload: "x" } })));
    const emit: DataOwner["emit"] = ({ type }) => void answered.push(`${identity} ${type}`);
    const owner = { self, isAgent: false, permissions: { publishData: true }, emit };
    const sender = { readerBehind() {}, readerLost() {} };
    if (packet)
      room.relay(owner, "reliable", DataMessage.ofPacket(self, packet, 9), new DataBudget(ROOM_RATES, now), sender);
  };
  const request = { id: "q", method: "m", timeoutMs: 1_000 };
  room.sendData({ roomId: "room", from: null, to: ["ann"], payload: "", request });
  for (const identity of ["eve", "ann", "ann", "ann", "ann"]) answers(identity);
  expect(answered).toEqual(["ann requestAnswered", "ann requestAnswered"]);
  room.close();
});

test("an agent's text for another participant names that and is marked as generated; nothing else does", () => {
  const self = { identity: "agent", participantId: "p1" };
  const written = (message: ConstructorParameters<typeof DataPacket>[0], isAgent: boolean) => {
    const sent = Buffer.from(new DataPacket({ participantIdentity: "ann", ...message }).toBinary());
    const packet = readDataPacket(sent);
    const relayed = packet && DataMessage.ofPacket(self, packet, sent.length, isAgent).in("packets");
    return DataPacket.fromBinary(relayed as Buffer);
  };
  const header = (contentHeader: DataStream_Header["contentHeader"]) => ({
    value: {
      case: "streamHeader" as const,
      value: new DataStream_Header({ streamId: "s", topic: "t", contentHeader }),
    },
  });
  const text = header({ case: "textHeader", value: new DataStream_TextHeader({ version: 3 }) });
  const bytes = header({ case: "byteHeader", value: new DataStream_ByteHeader({ name: "f" }) });
  const chat = { value: { case: "chatMessage" as const, value: new ChatMessage({ message: "hello" }) } };
  const user = { value: { case: "user" as const, value: new UserPacket({ payload: Buffer.from("x") }) } };

  expect(written(text, true).toJson()).toEqual({
    participantIdentity: "ann",
    participantSid: "PA_p1",
    streamHeader: { streamId: "s", topic: "t", textHeader: { version: 3, generated: true } },
  });
  expect(written(chat, true).toJson()).toMatchObject({
    participantIdentity: "ann",
    chatMessage: { message: "hello", generated: true },
  });
  for (const [message, isAgent] of [
    [text, false],
    [chat, false],
    [bytes, true],
    [user, true],
    [{ ...text, participantIdentity: "" }, true],
    [{ ...text, participantIdentity: "a\u0007" }, true],
  ] as const) {
    const relayed = written(message, isAgent);
    expect(relayed.participantIdentity).toBe("agent");
    expect(relayed.toJsonString()).not.toContain("generated");
  }
});

describe("data of one participant", () => {
  let nowMs: number;
  let relayed: { kind: string; message: DataMessage }[];
  let owner: DataOwner;
  let emitted: object[];
  let data: DataRelay;

  beforeEach(() => {
    nowMs = 1_000_000;
    relayed = [];
    emitted = [];
    owner = {
      self: { identity: "ann", participantId: "p1" },
      isAgent: false,
      permissions: { publishData: true },
      emit: ({ type, ...event }) => void emitted.push(type === "dataDropped" ? event : { type, ...event }),
    };
    data = make();
  });

  const make = () =>
    new DataRelay({ relay: (_from, kind, message) => relayed.push({ kind, message }) > 0 }, owner, () => nowMs);

  const deliver = (kind: "reliable" | "lossy", payload: string) =>
    data.deliver(kind, DataMessage.ofFrame({ identity: "ben", participantId: "p2" }, { payload }));

  test("a frame is relayed with its kind", () => {
    data.received(channel("lossy"), JSON.stringify({ payload: "x", topic: "t", to: ["ben"] }));
    const isForBen = (message: DataMessage) => message.isFor({ identity: "ben", participantId: "p2" });
    expect(
      relayed.map(({ kind, message }) => ({ kind, delivery: message.delivery, isForBen: isForBen(message) })),
    ).toEqual([{ kind: "lossy", delivery: { from: "ann", payload: "x", topic: "t" }, isForBen: true }]);
  });

  test.each(["constructor", "toString", "__proto__"])("a channel with the label %s is closed", (label) => {
    const unknown = channel(label);
    data.opened(unknown);
    expect([unknown.isOpen, data.alwaysReceives]).toEqual([false, false]);
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

  test("dropped messages are reported to the sender by reason, at most once a second", () => {
    const reliable = channel("reliable");
    for (let i = 0; i < 2_600; i++) data.received(reliable, '{"payload":"x"}');
    data.tick();
    expect([relayed.length, emitted]).toEqual([2_500, [{ messages: 100, reason: "rate_limited" }]]);
    data.received(reliable, '{"payload":"x"}');
    nowMs += 999;
    data.tick();
    expect(emitted).toHaveLength(1);
    owner = Object.assign(owner, { permissions: { publishData: false } });
    data.received(reliable, '{"payload":"x"}');
    nowMs += 1;
    data.tick();
    expect(emitted.slice(1)).toEqual([
      { messages: 1, reason: "rate_limited" },
      { messages: 1, reason: "permission_denied" },
    ]);
    nowMs += 5_000;
    data.tick();
    expect(emitted).toHaveLength(3);
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

  test("a flood is limited, and later messages pass", () => {
    for (let i = 0; i < 4_000; i++) data.received(channel("lossy"), '{"payload":"x"}');
    expect(relayed.length).toBe(2_500);
    nowMs += 1_000;
    data.received(channel("lossy"), '{"payload":"later"}');
    expect(relayed.at(-1)?.message.delivery).toEqual({ from: "ann", payload: "later" });
  });

  test("without a channel a message is left to the RTC socket", () => {
    expect(deliver("reliable", "x")).toBe(false);
    const closed = channel("reliable");
    data.opened(closed);
    closed.isOpen = false;
    expect(deliver("reliable", "x")).toBe(false);
  });

  test("a slow client loses lossy data and gets reliable data later, in order", () => {
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
    expect(reliable.sent.map((text) => Number.parseInt(JSON.parse(String(text)).payload, 10))).toEqual(
      Array.from({ length: 100 }, (_, i) => i),
    );
  });

  test("a numbered message is relayed once across connections, and another stream starts again", () => {
    const frame = (payload: string, seq: number, stream = "s") => JSON.stringify({ payload, stream, seq });
    const first = channel("reliable");
    for (const [n, payload] of ["a", "b"].entries()) data.received(first, frame(payload, n + 1));
    data.reset();
    const second = channel("reliable");
    for (const [n, payload] of ["a", "b", "c"].entries()) data.received(second, frame(payload, n + 1));
    data.received(second, frame("d", 1, "another"));
    data.received(second, JSON.stringify({ payload: "plain" }));
    data.received(second, JSON.stringify({ payload: "plain" }));
    expect(relayed.map(({ message }) => message.delivery?.payload)).toEqual(["a", "b", "c", "d", "plain", "plain"]);
    expect(emitted).toEqual([]);
  });

  test("messages for a client whose connection is replaced are sent on the next one, with those that arrived meanwhile", () => {
    const reliable = channel("reliable");
    data.opened(reliable);
    for (let i = 0; i < 10; i++) deliver("reliable", `${i}`.padEnd(10_000));
    const handedOver = reliable.sent.length;
    data.reset();
    expect(deliver("reliable", "10")).toBe(true);
    expect(deliver("lossy", "never mind")).toBe(false);
    const next = channel("reliable");
    data.opened(next);
    data.tick();
    expect(next.sent.map((text) => Number.parseInt(JSON.parse(String(text)).payload, 10))).toEqual(
      Array.from({ length: 11 - handedOver }, (_, i) => i + handedOver),
    );
  });

  describe("a client that acknowledges messages", () => {
    const had = (seq: number) => channel("reliable", `numbered.${seq}`);
    const got = (from: FakeChannel) => from.sent.map((text) => JSON.parse(String(text))).filter(({ seq }) => seq);
    const numbered = (from: FakeChannel) => got(from).map(({ seq, payload }) => [seq, payload]);

    test("unacknowledged messages are sent again on the next connection", () => {
      const first = had(0);
      data.opened(first);
      for (const payload of ["a", "b", "c"]) deliver("reliable", payload);
      expect(got(first)[0]).toEqual({ seq: 1, from: "ben", payload: "a" });
      data.reset();
      expect(deliver("reliable", "d")).toBe(true);
      const second = had(2);
      data.opened(second);
      deliver("reliable", "e");
      expect(numbered(second)).toEqual([
        [3, "c"],
        [4, "d"],
        [5, "e"],
      ]);
    });

    test("acknowledged messages are released, and an acknowledgement counts neither as a message nor as an error", () => {
      const first = had(0);
      data.opened(first);
      for (let n = 0; n < 600; n++) {
        deliver("reliable", "x".repeat(10_000));
        first.bufferedAmount = 0;
        data.received(first, JSON.stringify({ heard: n + 1 }));
      }
      expect([first.isOpen, first.sent.length, data.refused, relayed]).toEqual([true, 600, 0, []]);
      data.reset();
      // No earlier message is left to be delivered first.
      expect(deliver("reliable", "by the socket")).toBe(false);
    });

    test("a client that never acknowledges has its channel closed", () => {
      const first = had(0);
      data.opened(first);
      for (let n = 0; n < 600 && first.isOpen; n++) {
        deliver("reliable", "x".repeat(10_000));
        first.bufferedAmount = 0;
      }
      expect(first.isOpen).toBe(false);
    });

    test("reliable messages wait for their channel while only the lossy one is open", () => {
      const [first, lossy] = [had(0), channel("lossy")];
      for (const one of [first, lossy]) data.opened(one);
      deliver("reliable", "a");
      first.isOpen = false;
      expect(deliver("reliable", "b")).toBe(true);
      expect(lossy.sent).toEqual([]);
      const second = had(0);
      data.opened(second);
      expect(numbered(second)).toEqual([
        [1, "a"],
        [2, "b"],
      ]);
    });

    test("a node that does not know the client continues with the client's number", () => {
      const first = had(41);
      data.opened(first);
      deliver("reliable", "a");
      expect(numbered(first)).toEqual([[42, "a"]]);
    });

    test("the client gets acknowledgements of its own messages, at first 0, and only when they change", () => {
      const first = had(0);
      data.opened(first);
      data.tick();
      for (const seq of [1, 2]) data.received(first, JSON.stringify({ payload: "x", stream: "s", seq }));
      data.tick();
      data.tick();
      expect(first.sent).toEqual(['{"heard":0}', '{"heard":2}']);
      data.reset();
      const second = had(0);
      data.opened(second);
      data.tick();
      expect(second.sent).toEqual(['{"heard":2}']);
    });

    test("repeated messages do not count against the client's rate", () => {
      const first = had(0);
      data.opened(first);
      const frame = (seq: number) => JSON.stringify({ payload: "x", stream: "s", seq });
      for (let seq = 1; seq <= 400; seq++) data.received(first, frame(seq));
      nowMs += 1_000;
      data.reset();
      const second = had(0);
      data.opened(second);
      for (let seq = 1; seq <= 900; seq++) data.received(second, frame(seq));
      expect([relayed.length, data.refused]).toEqual([900, 0]);
    });
  });

  test("a client that does not number messages gets neither numbers nor acknowledgements", () => {
    const first = channel("reliable");
    data.opened(first);
    deliver("reliable", "a");
    data.received(first, JSON.stringify({ payload: "x", stream: "s", seq: 1 }));
    data.received(first, JSON.stringify({ heard: 1 }));
    data.tick();
    expect(first.sent).toEqual([JSON.stringify({ from: "ben", payload: "a" })]);
    expect(data.refused).toBe(1);
    data.reset();
    const second = channel("reliable");
    data.opened(second);
    expect(second.sent).toEqual([]);
  });

  test("messages do not wait for a channel that does not come, and go to the RTC socket", () => {
    const reliable = channel("reliable");
    data.opened(reliable);
    for (let i = 0; i < 10; i++) deliver("reliable", "x".repeat(10_000));
    data.reset();
    nowMs += 21_000;
    expect(deliver("reliable", "x")).toBe(false);
  });

  test("a client that never reads has its reliable channel closed", () => {
    const reliable = channel("reliable");
    data.opened(reliable);
    for (let i = 0; i < 600; i++) deliver("reliable", "x".repeat(10_000));
    expect(reliable.isOpen).toBe(false);
    expect(deliver("reliable", "x")).toBe(false);
  });

  describe("a client that reads slowly", () => {
    /** A message of 50,000 bytes, with what keeping any message costs. */
    const KEPT_BYTES = 50_256;
    let told: [string, string, number][];
    const sender = (name: string) => ({
      readerBehind: (reader: string, bytes: number) => void told.push([name, `${reader} behind`, bytes]),
      readerLost: (reader: string, messages: number) => void told.push([name, `${reader} lost`, messages]),
    });
    const send = (from: ReturnType<typeof sender> | null, bytes = 50_000) =>
      data.deliver(
        "reliable",
        DataMessage.ofFrame({ identity: "ben", participantId: "p2" }, { payload: "x".repeat(bytes) }),
        from,
      );
    beforeEach(() => {
      told = [];
    });

    test("slows each of its senders down once, at a megabyte, until it has caught up", () => {
      const reliable = channel("reliable");
      data.opened(reliable);
      const [ben, cid] = [sender("ben"), sender("cid")];
      for (let n = 0; n < 30; n++) send(ben);
      send(cid);
      send(null);
      expect(told).toEqual([
        ["ben", "ann behind", 21 * KEPT_BYTES],
        ["cid", "ann behind", 29 * KEPT_BYTES],
      ]);
      told = [];
      while (told.length === 0) {
        reliable.bufferedAmount = 0;
        data.tick();
      }
      expect(told).toEqual([
        ["ben", "ann behind", 4 * KEPT_BYTES],
        ["cid", "ann behind", 4 * KEPT_BYTES],
      ]);
    });

    test("gets no more messages in the end, and it and the sender are notified", () => {
      data.opened(channel("reliable"));
      const [ben, cid] = [sender("ben"), sender("cid")];
      send(cid);
      send(cid);
      send(cid);
      for (let n = 0; n < 84; n++) send(ben);
      // Two were handed over to the channel.
      expect(told.filter(([, what]) => what === "ann lost")).toEqual([
        ["cid", "ann lost", 1],
        ["ben", "ann lost", 83],
      ]);
      expect(told.filter(([, what]) => what === "ann behind").map(([name, , bytes]) => [name, bytes])).toEqual([
        ["ben", 21 * KEPT_BYTES],
        ["ben", 0],
      ]);
      data.tick();
      expect(emitted).toEqual([{ messages: 84, reason: "slow_reader", reader: "ann" }]);
    });

    test.each([
      ["without content", { payload: "" }, 20_000],
      ["with hundreds of names", { payload: "", to: Array.from({ length: 500 }, (_, n) => `p${n}`.padEnd(120)) }, 200],
    ])("has its channel closed by messages %s too", (_, frame, count) => {
      const reliable = channel("reliable", "numbered.0");
      data.opened(reliable);
      const ben = { identity: "ben", participantId: "p2" };
      for (let n = 0; n < count && reliable.isOpen; n++)
        data.deliver("reliable", DataMessage.ofFrame(ben, frame), sender("ben"));
      expect(reliable.isOpen).toBe(false);
      expect(told[0]?.slice(0, 2)).toEqual(["ben", "ann behind"]);
    });

    test("a sender reports to its client what its readers did not get, at most once a second", () => {
      data.readerBehind("cid", 2_000_000);
      data.readerLost("cid", 3);
      data.readerLost("cid", 4);
      data.readerLost("dan", 1);
      data.tick();
      expect(emitted).toEqual([
        { type: "dataBehind", reader: "cid", bytes: 2_000_000 },
        { messages: 7, reason: "slow_reader", reader: "cid" },
        { messages: 1, reason: "slow_reader", reader: "dan" },
      ]);
    });
  });

  test("a reliable message waits for the reliable channel, even if a lossy one is open", () => {
    data.expectChannels();
    const lossy = channel("lossy");
    data.opened(lossy);
    for (const payload of ["a", "b"]) expect(deliver("reliable", payload)).toBe(true);
    expect(lossy.sent).toEqual([]);
    const reliable = channel("reliable");
    data.opened(reliable);
    expect(reliable.sent.map((text) => JSON.parse(String(text)).payload)).toEqual(["a", "b"]);
  });

  test("a client without a reliable channel gets text by the RTC socket, and senders learn if it cannot receive bytes", () => {
    data.opened(channel("lossy"));
    expect(deliver("reliable", "a")).toBe(false);
    const lost: unknown[] = [];
    const sender = {
      readerBehind() {},
      readerLost: (...told: unknown[]) => void lost.push(told),
    };
    const packet = { content: { payload: Buffer.from([0xff]), topic: null, more: [] }, sequence: 0, isLossy: false };
    const bytes = DataMessage.ofPacket(null, { ...packet, destinations: [], destinationIds: [], namedSender: "" }, 1);
    expect(data.deliver("reliable", bytes, sender)).toBe(false);
    data.opened(channel("reliable", "numbered.0"));
    expect(data.deliver("reliable", bytes, sender)).toBe(true);
    expect(data.deliver("lossy", bytes, sender)).toBe(true);
    expect(lost).toEqual(Array(3).fill(["ann", 1, "text_only"]));
  });

  describe("a client that uses data packets", () => {
    let spent: boolean;
    beforeEach(() => {
      spent = false;
      const sink = {
        relay: (_from: DataOwner, kind: string, message: DataMessage) => {
          if (!spent) relayed.push({ kind, message });
          return !spent;
        },
      };
      data = new DataRelay(sink, owner, () => nowMs);
    });
    const had = (seq: number) => channel("reliable", `packets.${seq}`);
    const packet = (sequence: number, payload: string | Uint8Array, content?: DataPacket["value"]) =>
      Buffer.from(
        new DataPacket({
          value: content ?? { case: "user", value: new UserPacket({ payload: Buffer.from(payload) }) },
          sequence,
        }).toBinary(),
      );
    const fromBen = (content: Buffer) => {
      const read = readDataPacket(content);
      if (!read) throw new Error("no packet");
      return DataMessage.ofPacket({ identity: "ben", participantId: "p2" }, read, content.length);
    };
    const packetsOf = (from: FakeChannel) =>
      from.sent.filter((sent) => typeof sent !== "string").map((sent) => DataPacket.fromBinary(sent as Buffer));
    const heard = (from: FakeChannel) => from.sent.filter((sent) => typeof sent === "string").map(String);

    test("each delivery has the reader's own number, and unacknowledged ones are sent again with it", () => {
      const first = had(0);
      data.opened(first);
      for (const sequence of [70, 71, 72]) data.deliver("reliable", fromBen(packet(sequence, Buffer.from([0xff]))));
      expect(packetsOf(first).map(({ sequence }) => sequence)).toEqual([1, 2, 3]);
      data.received(first, JSON.stringify({ heard: 1 }));
      data.reset();
      const second = had(2);
      data.opened(second);
      data.deliver("reliable", fromBen(packet(0, "later")));
      expect(packetsOf(second).map(({ sequence, participantIdentity }) => [sequence, participantIdentity])).toEqual([
        [3, "ben"],
        [4, "ben"],
      ]);
      expect(data.refused).toBe(0);
    });

    test("a lossy packet cannot carry a number of its sender's", () => {
      const lossy = channel("lossy", "packets");
      data.opened(lossy);
      data.deliver("lossy", fromBen(packet(4_000_000_000, "x")));
      expect(packetsOf(lossy).map(({ sequence }) => sequence)).toEqual([0]);
    });

    test("bytes wait for the channel for a limited time, and text goes to the RTC socket meanwhile", () => {
      const bytes = () => fromBen(packet(0, Buffer.from([0xff, 0x00])));
      expect(data.deliver("reliable", bytes())).toBe(false);
      data.expectChannels();
      expect([data.deliver("reliable", bytes()), deliver("reliable", "text")]).toEqual([true, false]);
      nowMs += 21_000;
      expect(data.deliver("reliable", bytes())).toBe(false);
      data.expectChannels();
      expect(data.deliver("reliable", bytes())).toBe(true);
      const reliable = had(0);
      data.opened(reliable);
      expect(packetsOf(reliable)).toHaveLength(1);
    });

    test("a client that uses JSON frames gets no bytes, and its waiting bytes are discarded", () => {
      data.expectChannels();
      expect(data.deliver("reliable", fromBen(packet(0, Buffer.from([0xff]))))).toBe(true);
      const reliable = channel("reliable", "numbered.0");
      data.opened(reliable);
      expect(deliver("reliable", "text")).toBe(true);
      expect(reliable.sent.map((text) => JSON.parse(String(text)).payload)).toEqual(["text"]);
    });

    test("parts of streams wait behind other messages", () => {
      const chunk = (index: number) =>
        packet(0, "", {
          case: "streamChunk",
          value: new DataStream_Chunk({ streamId: "s", chunkIndex: BigInt(index), content: Buffer.alloc(15_000) }),
        });
      const reliable = had(0);
      data.opened(reliable);
      for (let index = 0; index < 20; index++) data.deliver("reliable", fromBen(chunk(index)));
      data.deliver("reliable", fromBen(packet(0, "soon")));
      const before = packetsOf(reliable).length;
      expect(before).toBeLessThan(10);
      while (packetsOf(reliable).length < 21) {
        reliable.bufferedAmount = 0;
        reliable.onLow?.();
      }
      const kinds = packetsOf(reliable).map(({ value }) => value.case);
      expect(kinds.indexOf("user")).toBe(before);
      const indexes = packetsOf(reliable).flatMap(({ value }) =>
        value.case === "streamChunk" ? [Number(value.value.chunkIndex)] : [],
      );
      expect(indexes).toEqual(Array.from({ length: 20 }, (_, index) => index));
      expect(packetsOf(reliable).map(({ sequence }) => sequence)).toEqual(
        Array.from({ length: 21 }, (_, index) => index + 1),
      );
    });

    test("a LiveKit client gets parts of streams and other messages in the order in which they were sent", () => {
      const sent = Array.from({ length: 20 }, (_, n) =>
        n % 10 === 9
          ? packet(n + 1, "x")
          : packet(n + 1, "", {
              case: "streamChunk",
              value: new DataStream_Chunk({ streamId: "s", content: Buffer.alloc(15_000) }),
            }),
      );
      data.expectPackets();
      for (const one of sent.slice(0, 12)) data.deliver("reliable", fromBen(one));
      const reliable = channel("_reliable");
      data.opened(reliable);
      for (const one of sent.slice(12)) data.deliver("reliable", fromBen(one));
      while (reliable.sent.length < 20) {
        reliable.bufferedAmount = 0;
        reliable.onLow?.();
      }
      expect(packetsOf(reliable).map(({ sequence }) => sequence)).toEqual(sent.map((_, n) => n + 1));
    });

    test("messages over the rate limit are acknowledged late instead of dropped, up to a limit", () => {
      const reliable = had(0);
      data.opened(reliable);
      spent = true;
      for (let seq = 1; seq <= 400; seq++) data.received(reliable, packet(seq, "x"));
      data.tick();
      expect([relayed.length, data.refused]).toEqual([0, 0]);
      spent = false;
      data.tick();
      expect(relayed).toHaveLength(400);
      expect(heard(reliable).at(-1)).toBe('{"heard":400}');
      for (let seq = 401; seq <= 6_000; seq++) data.received(reliable, packet(seq, "x"));
      data.tick();
      expect(relayed.length).toBe(2_500);
      nowMs += 1_000;
      data.tick();
      expect([relayed.length, data.refused]).toEqual([3_500, 2_500]);
      expect(emitted).toContainEqual({ messages: 2_500, reason: "rate_limited" });
    });

    test("messages that the client repeats are relayed once, and acknowledged with their own numbers", () => {
      const first = had(0);
      data.opened(first);
      for (const seq of [1, 2]) data.received(first, packet(seq, `${seq}`));
      data.reset();
      const second = had(0);
      data.opened(second);
      for (const seq of [1, 2, 3]) data.received(second, packet(seq, `${seq}`));
      data.tick();
      expect(relayed.map(({ message }) => message.delivery?.payload)).toEqual(["1", "2", "3"]);
      expect(heard(second)).toEqual(['{"heard":3}']);
    });

    test("[2] a client no longer receives after publishData was taken away", () => {
      data.opened(had(0));
      expect(data.alwaysReceives).toBe(false);
    });
  });

  describe("LiveKit clients", () => {
    const packetOf = (sequence: number, payload: Uint8Array, topic?: string) =>
      Buffer.from(
        new DataPacket({
          value: { case: "user", value: new UserPacket({ payload, topic }) },
          destinationIdentities: ["ben"],
          sequence,
          participantIdentity: "somebody-else",
        }).toBinary(),
      );

    test("a packet gets its true sender, and its text is delivered to Stoa clients", () => {
      const reliable = channel("_reliable");
      data.opened(reliable);
      data.received(reliable, packetOf(7, Buffer.from("héllo"), "chat"));
      const message = relayed[0]?.message;
      expect(message?.delivery).toEqual({ from: "ann", topic: "chat", payload: "héllo" });
      expect(message?.isFor({ identity: "ben", participantId: "p2" })).toBe(true);
      expect(message?.isFor({ identity: "eve", participantId: "p3" })).toBe(false);
      const stamped = DataPacket.fromBinary(message?.in("packets") as Buffer);
      expect(stamped).toMatchObject({ participantIdentity: "ann", participantSid: "PA_p1", sequence: 7 });
      expect(stamped.value).toMatchObject({ case: "user", value: { participantSid: "PA_p1", topic: "chat" } });
      expect(Buffer.from((stamped.value.value as UserPacket).payload).toString()).toBe("héllo");
      expect(data.lastSequence).toBe(7);
    });

    const relay = (packet: Buffer) => {
      const reliable = channel("_reliable");
      data.opened(reliable);
      data.received(reliable, packet);
      const written = relayed.at(-1)?.message.in("packets");
      return written ? DataPacket.fromBinary(written as Buffer) : null;
    };

    test("each kind of content is relayed with its true sender, except the speakers that only the server knows", () => {
      const kinds = DataPacket.fields
        .list()
        .flatMap((field) => (field.kind === "message" && field.oneof ? [field] : []));
      expect(kinds.length).toBeGreaterThan(12);
      for (const { localName, T } of kinds) {
        const value = { case: localName, value: new (T as new () => object)() };
        const forged = { participantIdentity: "eve", participantSid: "PA_eve" };
        const packet = Buffer.from(new DataPacket({ ...forged, value } as never).toBinary());
        relayed.length = 0;
        data = make();
        const got = relay(packet);
        if (localName === "speaker") expect(got).toBeNull();
        else {
          expect(got).toMatchObject({ participantIdentity: "ann", participantSid: "PA_p1" });
          expect([localName, got?.value.case as string]).toEqual([localName, localName]);
        }
      }
    });

    test("a sender under a tag that decoders read in different ways is not relayed", () => {
      const text = (tag: number[], value: string) =>
        Buffer.concat([Buffer.from([...tag, value.length]), Buffer.from(value)]);
      // Field 5 of the user packet, its sender's identity, as 5, 5 with padding, and 5 with bits above the 32nd.
      const tags = [
        [0x2a],
        [0xaa, 0x80, 0x00],
        [0xaa, 0x80, 0x80, 0x80, 0x10],
        [0xaa, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
      ];
      const payload = text([0x12], "hi");
      for (const tag of tags) {
        for (const inner of [Buffer.concat([payload, text(tag, "eve")]), Buffer.concat([text(tag, "eve"), payload])]) {
          relayed.length = 0;
          data = make();
          const got = relay(Buffer.concat([Buffer.from([0x12, inner.length]), inner]));
          if (got) expect((got.value.value as UserPacket).participantIdentity).toBe("ann");
          expect(JSON.stringify(relayed.map(({ message }) => String(message.in("packets"))))).not.toContain("eve");
        }
      }
      // The same at the top: a forged sender after the content, and a second content.
      const user = Buffer.concat([Buffer.from([0x12, payload.length]), payload]);
      for (const tag of [[0x22], [0xa2, 0x80, 0x00], [0xa2, 0x80, 0x80, 0x80, 0x10]]) {
        relayed.length = 0;
        data = make();
        expect(relay(Buffer.concat([user, text(tag, "eve")]))?.participantIdentity ?? "ann").toBe("ann");
      }
      relayed.length = 0;
      data = make();
      expect(relay(Buffer.concat([user, user]))).toBeNull();
    });

    test("participants named by their sid are the only ones who get the packet", () => {
      const value = new UserPacket({ payload: Buffer.from("hi"), destinationSids: ["PA_p2"] });
      relay(Buffer.from(new DataPacket({ value: { case: "user", value } }).toBinary()));
      const isFor = (identity: string, participantId: string) => relayed[0]?.message.isFor({ identity, participantId });
      expect([isFor("ben", "p2"), isFor("eve", "p3")]).toEqual([true, false]);
    });

    test("a packet of thousands of fields is refused", () => {
      expect(relay(Buffer.alloc(60_000).fill(Buffer.of((5 << 3) | 2, 0)))).toBeNull();
      expect(data.refused).toBe(1);
    });

    test("packets repeated after a resume are dropped", () => {
      const reliable = channel("_reliable");
      data.opened(reliable);
      for (const sequence of [1, 2, 2, 1, 3]) data.received(reliable, packetOf(sequence, Buffer.from(`${sequence}`)));
      expect(relayed.map(({ message }) => message.delivery?.payload)).toEqual(["1", "2", "3"]);
      expect(data.refused).toBe(0);
    });

    test("bytes that are not UTF-8 are delivered to LiveKit clients only", () => {
      const reliable = channel("_reliable");
      data.opened(reliable);
      data.received(reliable, packetOf(1, Buffer.from([0xff, 0xfe])));
      expect(relayed[0]?.message.delivery).toBeNull();
      expect(relayed[0]?.message.in("frames")).toBeNull();
    });

    test("a message of a Stoa client reaches LiveKit clients as a packet", () => {
      const reliable = channel("_reliable");
      data.opened(reliable);
      deliver("reliable", "hi");
      const packet = DataPacket.fromBinary(reliable.sent[0] as Buffer);
      expect(packet).toMatchObject({ participantIdentity: "ben", participantSid: "PA_p2" });
      expect(Buffer.from((packet.value.value as UserPacket).payload).toString()).toBe("hi");
    });

    const payloads = (from: FakeChannel) =>
      from.sent.map((sent) => {
        const { value } = DataPacket.fromBinary(sent as Buffer);
        return Buffer.from((value.value as UserPacket).payload).toString();
      });

    test("reliable messages wait for their channel while they connect", () => {
      expect(data.alwaysReceives).toBe(false);
      data.expectPackets();
      expect(data.alwaysReceives).toBe(true);
      expect([deliver("reliable", "a"), deliver("lossy", "never mind")]).toEqual([true, false]);
      const lossy = channel("_lossy");
      data.opened(lossy);
      expect([deliver("reliable", "b"), deliver("lossy", "now")]).toEqual([true, true]);
      data.tick();
      expect(payloads(lossy)).toEqual(["now"]);
      const reliable = channel("_reliable");
      data.opened(reliable);
      deliver("reliable", "c");
      expect(payloads(reliable)).toEqual(["a", "b", "c"]);
    });

    test("reliable messages are not queued for a data channel that is not opened in time, nor beyond the memory limit", () => {
      data.expectPackets();
      for (let i = 0; i < 600; i++) deliver("reliable", "x".repeat(10_000));
      expect(deliver("reliable", "x".repeat(10_000))).toBe(false);
      nowMs += 21_000;
      // A client that negotiates again is not new.
      data.expectPackets();
      expect(deliver("reliable", "late")).toBe(false);
      const reliable = channel("_reliable");
      data.opened(reliable);
      expect(reliable.sent).toEqual([]);
    });

    test("a channel that LiveKit clients never use stays open, and a truncated packet is refused", () => {
      const unused = channel("_data_track");
      const lossy = channel("_lossy");
      for (const each of [unused, lossy]) data.opened(each);
      data.received(lossy, packetOf(0, Buffer.from("x")).subarray(0, -1));
      expect(unused.isOpen).toBe(true);
      expect(relayed).toEqual([]);
      expect(data.refused).toBe(1);
    });
  });
});
