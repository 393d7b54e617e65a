/** Clients of the SDK's data in a room of the server, with channels in memory. */
import type { Caption } from "../../../src/protocol/data/captions.ts";
import { type DataMessage, RoomData } from "../../../src/protocol/data/room-data.ts";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import type { ParticipantHost } from "../../../src/sfu/room/host.ts";
import { Room } from "../../../src/sfu/room/room.ts";
import type { DataChannel } from "../../../src/sfu/werift/werift-hooks.ts";
import { ALL } from "../../sfu/room-of-peers.ts";

type Listener = (event: { data: unknown }) => void;

/** Both ends of one data channel. */
class Wire {
  readyState: RTCDataChannelState = "connecting";
  binaryType: BinaryType = "blob";
  /** Messages that the server has sent and the client has not read. */
  readonly down: (string | Buffer)[] = [];
  readonly server: DataChannel;
  readonly #listeners = new Map<string, Listener[]>();

  constructor(
    readonly label: string,
    readonly protocol: string,
    readonly send: (data: string | Uint8Array) => void,
  ) {
    const { down } = this;
    this.server = {
      label,
      protocol,
      isOpen: true,
      get bufferedAmount() {
        return down.reduce((sum, data) => sum + data.length, 0);
      },
      send: (data) => void down.push(data),
      close: () => {},
    };
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }

  fire(type: "open" | "message", data?: unknown): void {
    for (const listener of this.#listeners.get(type) ?? []) listener({ data });
  }

  read(): void {
    for (const data of this.down.splice(0)) {
      this.fire("message", typeof data === "string" ? data : new Uint8Array(data).buffer);
    }
    this.server.onLow?.();
  }
}

export type DataClient = ReturnType<DataRoom["join"]>;

export class DataRoom {
  readonly room: Room;
  /** The participants by the tracks that they publish. */
  readonly publishers = new Map<string, string>();
  readonly #clients = new Map<string, { wires: Wire[]; isSlow: boolean }>();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(now: () => number = () => performance.now()) {
    const host = { now, emit() {}, udp: { repairs: {}, path: typescriptPath } } as unknown as ParticipantHost;
    this.room = new Room(host, { roomId: "room", audibleVoices: 2 });
    this.#timer = setInterval(() => this.carry(), 1);
  }

  join(identity: string, { agent = false } = {}) {
    this.room.add({ roomId: "room", participantId: identity, identity, permissions: ALL, agent });
    const client = { wires: [] as Wire[], isSlow: false };
    this.#clients.set(identity, client);
    const messages: DataMessage[] = [];
    const captions: Caption[] = [];
    const errors: unknown[] = [];
    const leftOut: string[] = [];
    const sent: number[] = [];
    const ended = new AbortController();
    const data = new RoomData({
      encryption: null,
      present: () => [...this.#clients.keys()].filter((one) => one !== identity),
      newId: () => crypto.randomUUID(),
      onLeftOut: (who, topic) => leftOut.push(`${who} ${topic}`),
      onError: (error) => errors.push(error),
      sendBySocket: async (frame) => this.room.sendData({ roomId: "room", from: identity, ...frame }),
      onMessage: (message) => messages.push(message),
      publisherOf: (trackId) => this.publishers.get(trackId),
      onCaption: (caption) => captions.push(caption),
      fail: (code, message) => Object.assign(new Error(message), { code }),
    });
    data.connect({
      ended: ended.signal,
      addChannel: (label, { protocol = "" } = {}) => {
        const relay = this.room.find(identity)?.data;
        const wire: Wire = new Wire(label, protocol, (bytes) => {
          sent.push(bytes.length);
          relay?.received(wire.server, typeof bytes === "string" ? bytes : Buffer.from(bytes));
        });
        client.wires.push(wire);
        queueMicrotask(() => {
          wire.readyState = "open";
          relay?.opened(wire.server);
          wire.fire("open");
        });
        return wire as never;
      },
    });
    return { identity, data, messages, captions, errors, leftOut, sent, link: client };
  }

  /** A client whose reliable channel carries numbered JSON frames. */
  joinWithFrames(identity: string) {
    this.room.add({ roomId: "room", participantId: identity, identity, permissions: ALL });
    const relay = this.room.find(identity)?.data;
    const received: Record<string, unknown>[] = [];
    const wire: Wire = new Wire("reliable", "numbered.0", (data) => relay?.received(wire.server, String(data)));
    wire.addEventListener("message", ({ data }) => void received.push(JSON.parse(String(data))));
    this.#clients.set(identity, { wires: [wire], isSlow: false });
    relay?.opened(wire.server);
    return { received, send: (frame: object) => wire.send(JSON.stringify(frame)) };
  }

  leave(identity: string): void {
    this.room.remove(identity);
    this.#clients.delete(identity);
  }

  /** Delivers what the server has sent to each client that reads. */
  carry(): void {
    for (const [identity, { wires, isSlow }] of this.#clients) {
      if (!isSlow) for (const wire of wires) wire.read();
      this.room.find(identity)?.data.tick();
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
