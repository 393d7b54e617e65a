/** Tests the reliable data of the SDK and the server together, on connections that fail at any moment. */
import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { seededRandom } from "../../../src/kernel/net/impairment.ts";
import type { DataTransport } from "../../../src/protocol/data/data-channels.ts";
import { RoomData } from "../../../src/protocol/data/room-data.ts";
import { DataMessage } from "../../../src/sfu/room/data-message.ts";
import { DataRelay } from "../../../src/sfu/room/data-relay.ts";
import type { DataChannel } from "../../../src/sfu/werift/werift-hooks.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

const STEPS = 3_000;
const SEEDS = [1, 2, 3];

class ClientChannel extends EventTarget {
  readyState = "connecting";
  binaryType = "";
  constructor(
    readonly label: string,
    readonly protocol: string,
    readonly send: (data: string | Uint8Array) => void,
  ) {
    super();
  }
}

/** A fake connection with its reliable channel and the messages in transit. */
class Connection {
  readonly #up: (string | Buffer)[] = [];
  readonly #down: (string | Buffer)[] = [];
  readonly #ended = new AbortController();
  #client: ClientChannel | undefined;
  #server: DataChannel | undefined;

  readonly transport = {
    ended: this.#ended.signal,
    addChannel: (label: string, { protocol = "" }: RTCDataChannelInit) => {
      const channel = new ClientChannel(
        label,
        protocol,
        (data) => void this.#up.push(typeof data === "string" ? data : Buffer.from(data)),
      );
      if (label === "reliable") this.#client = channel;
      return channel;
    },
  } as unknown as DataTransport;

  open(relay: DataRelay): void {
    const client = this.#client;
    if (!client) return;
    const down = this.#down;
    this.#server = {
      label: "reliable",
      protocol: client.protocol,
      isOpen: true,
      get bufferedAmount() {
        return down.reduce((sum, data) => sum + data.length, 0);
      },
      send: (data) => void down.push(data),
      close: () => {},
    };
    relay.opened(this.#server);
    client.readyState = "open";
    client.dispatchEvent(new Event("open"));
  }

  carry(relay: DataRelay, count: number): void {
    for (const data of this.#up.splice(0, count)) if (this.#server) relay.received(this.#server, data);
    for (const sent of this.#down.splice(0, count)) {
      const data = typeof sent === "string" ? sent : new Uint8Array(sent).buffer;
      this.#client?.dispatchEvent(new MessageEvent("message", { data }));
    }
  }

  die(): void {
    this.#ended.abort();
  }
}

async function settle(): Promise<void> {
  for (let n = 0; n < 10; n++) await Promise.resolve();
}

test.each(SEEDS)(
  "each message arrives once and in order in both directions across connection failures (seed %d)",
  async (seed) => {
    const random = seededRandom(seed);
    let nowMs = 0;
    const [atServer, atClient]: [string[], string[]] = [[], []];
    const owner = {
      self: { identity: "ann", participantId: "p1" },
      isAgent: false,
      permissions: { publishData: true },
      emit: () => {},
    };
    const relay = new DataRelay(
      { relay: (_from, _kind, { delivery }) => atServer.push(delivery?.payload ?? "") > 0 },
      owner,
      () => nowMs,
    );
    const data = new RoomData({
      encryption: null,
      present: () => [],
      newId: () => "id",
      publisherOf: () => undefined,
      onCaption: () => {},
      onLeftOut: () => {},
      onError: () => {},
      sendBySocket: async ({ payload }) => atServer.push(payload),
      onMessage: ({ payload }) => void atClient.push(payload),
      fail: (_, message) => new Error(message),
    });
    const connect = () => {
      const connection = new Connection();
      data.connect(connection.transport);
      return connection;
    };
    let connection = connect();
    connection.open(relay);
    let [sent, delivered] = [0, 0];
    const deliver = () => {
      const message = DataMessage.ofFrame(null, { payload: String(delivered++).padEnd(random() < 0.1 ? 20_000 : 1) });
      // Like the room, this falls back to the socket if there is no channel.
      if (!relay.deliver("reliable", message)) atClient.push(message.delivery?.payload ?? "");
    };
    for (let step = 0; step < STEPS; step++) {
      nowMs += 10;
      jest.advanceTimersByTime(10);
      if (random() < 0.5) void data.sendData(String(sent++), {});
      if (random() < 0.5) deliver();
      connection.carry(relay, Math.floor(random() * 3));
      if (step % 10 === 0) relay.tick();
      if (random() < 0.02) {
        connection.die();
        relay.reset();
        connection = connect();
        for (let n = Math.floor(random() * 5); n > 0; n--) deliver();
        connection.open(relay);
      }
      await settle();
    }
    for (let step = 0; step < STEPS && (atServer.length < sent || atClient.length < delivered); step++) {
      nowMs += 100;
      jest.advanceTimersByTime(100);
      connection.carry(relay, 10);
      relay.tick();
      await settle();
    }
    const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);
    expect(atServer.map(Number)).toEqual(numbers(sent));
    expect(atClient.map(Number)).toEqual(numbers(delivered));
    expect(relay.refused).toBe(0);
  },
);
