import { expect, test } from "bun:test";
import { TurnConnection, WriteScheduler } from "../../../src/network/tls/turn-connection.ts";
import { TurnStream, writeChannelData } from "../../../src/network/turn/framing.ts";
import { newTransaction, successOf, TURN_TYPE, writeMessage } from "../../../src/network/turn/message.ts";
import type { TurnServer } from "../../../src/network/turn/server.ts";
import { fakeClock } from "../../harness/clock.ts";

const CLIENT = { address: "203.0.113.7", port: 50_000 };
const CHANNEL = 0x4000;

/** A socket that takes as much as it is given room for. */
function narrowSocket() {
  let room = 0;
  const taken: Buffer[] = [];
  const socket = {
    write(data: Uint8Array): number {
      const bytes = Math.min(room, data.length);
      room -= bytes;
      taken.push(Buffer.from(data.subarray(0, bytes)));
      return bytes;
    },
    end() {},
    terminate() {},
    pause() {},
    resume() {},
  };
  const messages = () => {
    const found: Buffer[] = [];
    new TurnStream().push(Buffer.concat(taken), (message) => void found.push(Buffer.from(message)));
    return found;
  };
  return {
    socket,
    messages,
    widen: (bytes: number) => {
      room = bytes;
    },
  };
}

function media(text: string): Buffer {
  const frame = Buffer.alloc(2_000);
  return frame.subarray(0, writeChannelData(frame, CHANNEL, Buffer.from(text.padEnd(100, ".")), true));
}

const answer = () => writeMessage(successOf(TURN_TYPE.refresh), newTransaction(), [], { key: null });
/** Resolves when everything written before has been sent. */
const departed = (departures: WriteScheduler) => new Promise<void>((resolve) => departures.add(resolve));

function connection() {
  const narrow = narrowSocket();
  const clock = fakeClock();
  const server = { counters: { dropped: 0 }, closed() {} };
  const departures = new WriteScheduler();
  const turnServer = server as unknown as TurnServer;
  const line = new TurnConnection(narrow.socket, CLIENT, "tls", turnServer, departures, clock.now);
  const said = () =>
    narrow.messages().map((message) => (message[0] === 0x40 ? message.toString("latin1", 4, 9) : "answer"));
  return { ...narrow, clock, server, line, said, sent: () => departed(departures) };
}

test("media that waited longer than a second is dropped in whole messages, and responses never are", async () => {
  const { line, widen, clock, server, said, sent } = connection();
  line.send(media("first"));
  await sent();
  line.send(media("stale"));
  line.send(answer());
  clock.advance(900);
  line.send(media("fresh"));
  clock.advance(200);
  widen(50);
  line.drained();
  await sent();
  expect(said()).toEqual([]);
  widen(10_000);
  line.drained();
  await sent();
  expect(said()).toEqual(["first", "answer", "fresh"]);
  expect(server.counters.dropped).toBe(1);
  line.send(media("later"));
  await sent();
  expect(said()).toEqual(["first", "answer", "fresh", "later"]);
});

test("at most 256 KB wait for a client", async () => {
  const { line, widen, said, sent } = connection();
  line.send(media("first"));
  await sent();
  let waiting = 0;
  while (line.send(media("packs"))) waiting++;
  expect(waiting).toBe(Math.floor((256 * 1_024) / media("").length));
  widen(10_000_000);
  line.drained();
  await sent();
  expect(said().length).toBe(1 + waiting);
});
