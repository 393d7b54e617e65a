import type { Now } from "../../kernel/time/clock.ts";
import { type Address, maskAddress } from "./address.ts";
import type { TurnUser } from "./authentication.ts";
import { isChannel, writeChannelData } from "./framing.ts";
import { ATTRIBUTE, newTransaction, TURN_TYPE, writeMessage } from "./message.ts";
import { RelayBudget } from "./quota.ts";
import type { ClientTransport, OpenRelay, Peer, RelaySocket } from "./transports.ts";

const PERMISSION_MS = 300_000;
const CHANNEL_MS = 600_000;
/** An allocation that has received no packet from a peer within this time is released. */
const FIRST_PACKET_MS = 30_000;
/** An ICE agent checks even an unused candidate pair every 25 s. */
const SILENCE_MS = 120_000;
const MAX_PEERS = 16;
const MAX_WAITING = 8;
const MAX_FRAME_BYTES = 65_536;

type KnownPeer = {
  readonly peer: Peer;
  socket: RelaySocket | null;
  waiting: Buffer[];
  /** 0 if no channel is bound. */
  channel: number;
  channelUntilMs: number;
};

export type RelayCounters = {
  packetsIn: number;
  packetsOut: number;
  bytesIn: number;
  bytesOut: number;
  /** Packets over the rate limit, or for a client that reads too slowly. */
  dropped: number;
};

type AllocationOptions = TurnUser & {
  client: ClientTransport;
  transaction: string;
  relayed: Address;
  open: OpenRelay;
  bitsPerSecond: number;
  counters: RelayCounters;
  /** All allocations share this buffer, because a frame is sent as soon as it is written. */
  frame: Buffer;
  now: Now;
};

export const newFrame = (): Buffer => Buffer.alloc(MAX_FRAME_BYTES + 64);

/** One client's use of the relay (RFC 8656 §3.2): its permissions, channels and sockets to peers. */
export class Allocation {
  readonly options: AllocationOptions;
  expiresAtMs = 0;
  readonly #permittedUntil = new Map<string, number>();
  readonly #knownPeers = new Map<number | string, KnownPeer>();
  readonly #byChannel = new Map<number, KnownPeer>();
  readonly #in: RelayBudget;
  readonly #out: RelayBudget;
  readonly #madeAtMs: number;
  #receivedAtMs: number | null = null;
  #closed = false;

  constructor(options: AllocationOptions) {
    this.options = options;
    this.#madeAtMs = options.now();
    this.#in = new RelayBudget(options.bitsPerSecond, this.#madeAtMs);
    this.#out = new RelayBudget(options.bitsPerSecond, this.#madeAtMs);
  }

  isExpired(nowMs: number): boolean {
    if (nowMs >= this.expiresAtMs) return true;
    return this.#receivedAtMs === null
      ? nowMs - this.#madeAtMs > FIRST_PACKET_MS
      : nowMs - this.#receivedAtMs > SILENCE_MS;
  }

  permit(address: string, nowMs: number): void {
    this.#permittedUntil.set(address, nowMs + PERMISSION_MS);
  }

  /** False when the channel or the peer is bound differently, or the client has too many peers. */
  bind(channel: number, peer: Peer, key: number | string, nowMs: number): boolean {
    if (!isChannel(channel)) return false;
    const known = this.#knownPeer(peer, key);
    const holder = this.#byChannel.get(channel);
    if (!known || (holder && holder !== known && nowMs < holder.channelUntilMs)) return false;
    if (known.channel !== 0 && known.channel !== channel && nowMs < known.channelUntilMs) return false;
    if (holder && holder !== known) holder.channel = 0;
    if (known.channel !== channel) this.#byChannel.delete(known.channel);
    known.channel = channel;
    known.channelUntilMs = nowMs + CHANNEL_MS;
    this.#byChannel.set(channel, known);
    this.permit(peer.announced.address, nowMs);
    return true;
  }

  sendOnChannel(channel: number, data: Buffer, nowMs: number): void {
    const known = this.#byChannel.get(channel);
    if (known && nowMs < known.channelUntilMs) this.#toPeer(known, data, nowMs);
  }

  sendToKnownPeer(key: number | string, data: Buffer, nowMs: number): boolean {
    const known = this.#knownPeers.get(key);
    if (known) this.#toPeer(known, data, nowMs);
    return known !== undefined;
  }

  sendTo(peer: Peer, key: number | string, data: Buffer, nowMs: number): void {
    // Without a permission no socket is opened.
    if (nowMs >= (this.#permittedUntil.get(peer.announced.address) ?? 0)) return;
    const known = this.#knownPeer(peer, key);
    if (known) this.#toPeer(known, data, nowMs);
  }

  #knownPeer(peer: Peer, key: number | string): KnownPeer | undefined {
    const existing = this.#knownPeers.get(key);
    if (existing) return existing;
    if (this.#knownPeers.size >= MAX_PEERS) return undefined;
    const known: KnownPeer = { peer, socket: null, waiting: [], channel: 0, channelUntilMs: 0 };
    this.#knownPeers.set(key, known);
    const { open, client, relayed } = this.options;
    const onPacket = (data: Buffer) => this.#toClient(known, data);
    void open({ peer, client: { address: client.address, port: client.port }, relayed, onPacket }).then(
      (socket) => this.#opened(known, socket),
      // The client's connectivity checks get no response, and the next packet tries to open the socket again.
      () => void this.#knownPeers.delete(key),
    );
    return known;
  }

  #opened(known: KnownPeer, socket: RelaySocket): void {
    if (this.#closed) {
      socket.close();
      return;
    }
    known.socket = socket;
    for (const data of known.waiting) socket.send(data);
    known.waiting = [];
  }

  #isPermitted(known: KnownPeer, nowMs: number): boolean {
    return nowMs < (this.#permittedUntil.get(known.peer.announced.address) ?? 0);
  }

  #toPeer(known: KnownPeer, data: Buffer, nowMs: number): void {
    const { counters } = this.options;
    if (!this.#isPermitted(known, nowMs)) return;
    if (!this.#in.take(data.length, nowMs)) {
      counters.dropped++;
      return;
    }
    counters.packetsIn++;
    counters.bytesIn += data.length;
    if (known.socket) known.socket.send(data);
    else if (known.waiting.length < MAX_WAITING) known.waiting.push(Buffer.from(data));
    else counters.dropped++;
  }

  #toClient(known: KnownPeer, data: Buffer): void {
    const { counters, client, now } = this.options;
    const nowMs = now();
    if (this.#closed || !this.#isPermitted(known, nowMs)) return;
    this.#receivedAtMs = nowMs;
    if (!this.#out.take(data.length, nowMs) || !client.send(this.#framed(known, data, nowMs))) {
      counters.dropped++;
      return;
    }
    counters.packetsOut++;
    counters.bytesOut += data.length;
  }

  #framed(known: KnownPeer, data: Buffer, nowMs: number): Buffer {
    const { client, frame } = this.options;
    if (known.channel === 0 || nowMs >= known.channelUntilMs) return dataIndication(known.peer.announced, data);
    return frame.subarray(0, writeChannelData(frame, known.channel, data, client.protocol !== "udp"));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const { socket } of this.#knownPeers.values()) socket?.close();
    this.#knownPeers.clear();
    this.#byChannel.clear();
  }
}

function dataIndication(from: Address, data: Buffer): Buffer {
  const transaction = newTransaction();
  const peer = [ATTRIBUTE.peerAddress, maskAddress(from, transaction)] as const;
  return writeMessage(TURN_TYPE.data, transaction, [peer, [ATTRIBUTE.data, data]], { key: null });
}
