import type { Now } from "../../kernel/time/clock.ts";
import { type Address, maskAddress } from "./address.ts";
import { isChannel, writeChannelData } from "./channel-data.ts";
import type { RelayCounters } from "./counters.ts";
import type { OpenRelay, Peer, RelaySocket, ClientTransport } from "./transports.ts";
import { ATTRIBUTE, newTransaction, TURN_TYPE, writeMessage } from "./message.ts";
import { RelayBudget } from "./quota.ts";

const PERMISSION_MS = 300_000;
const CHANNEL_MS = 600_000;
/** An allocation is for a live ICE session: one that reaches no media port by then holds nothing. */
const FIRST_ANSWER_MS = 30_000;
/** A relay that is only kept in reserve is checked every 25 s. */
const SILENCE_MS = 120_000;
const MAX_PEERS = 16;
/** Packets that wait for the socket to a peer to open. */
const MAX_WAITING = 8;
const MAX_FRAME_BYTES = 65_536;

/** A peer this client has sent to. */
type Contact = {
  readonly peer: Peer;
  socket: RelaySocket | null;
  waiting: Buffer[];
  /** 0: none. */
  channel: number;
  channelUntilMs: number;
};

export type AllocationOptions = {
  client: ClientTransport;
  /** Whom the credentials were made for. */
  id: string;
  username: string;
  key: Buffer;
  transaction: string;
  relayed: Address;
  open: OpenRelay;
  bitsPerSecond: number;
  counters: RelayCounters;
  /** One for all allocations: a frame is written and handed on in one go. */
  frame: Buffer;
  now: Now;
};

export const newFrame = (): Buffer => Buffer.alloc(MAX_FRAME_BYTES + 64);

/** What one client holds of the relay. */
export class Allocation {
  readonly options: AllocationOptions;
  expiresAtMs = 0;
  readonly #permittedUntil = new Map<string, number>();
  readonly #contacts = new Map<number | string, Contact>();
  readonly #byChannel = new Map<number, Contact>();
  readonly #in: RelayBudget;
  readonly #out: RelayBudget;
  readonly #madeAtMs: number;
  #answeredAtMs: number | null = null;
  #closed = false;

  constructor(options: AllocationOptions) {
    this.options = options;
    this.#madeAtMs = options.now();
    this.#in = new RelayBudget(options.bitsPerSecond, this.#madeAtMs);
    this.#out = new RelayBudget(options.bitsPerSecond, this.#madeAtMs);
  }

  isExpired(nowMs: number): boolean {
    if (nowMs >= this.expiresAtMs) return true;
    return this.#answeredAtMs === null
      ? nowMs - this.#madeAtMs > FIRST_ANSWER_MS
      : nowMs - this.#answeredAtMs > SILENCE_MS;
  }

  permit(address: string, nowMs: number): void {
    this.#permittedUntil.set(address, nowMs + PERMISSION_MS);
  }

  /** False when the number or the peer is bound otherwise, or the client has named too many peers. */
  bind(channel: number, peer: Peer, key: number | string, nowMs: number): boolean {
    if (!isChannel(channel)) return false;
    const contact = this.#contact(peer, key);
    const holder = this.#byChannel.get(channel);
    if (!contact || (holder && holder !== contact && nowMs < holder.channelUntilMs)) return false;
    if (contact.channel !== 0 && contact.channel !== channel && nowMs < contact.channelUntilMs) return false;
    if (holder && holder !== contact) holder.channel = 0;
    if (contact.channel !== channel) this.#byChannel.delete(contact.channel);
    contact.channel = channel;
    contact.channelUntilMs = nowMs + CHANNEL_MS;
    this.#byChannel.set(channel, contact);
    this.permit(peer.announced.address, nowMs);
    return true;
  }

  sendOnChannel(channel: number, data: Buffer, nowMs: number): void {
    const contact = this.#byChannel.get(channel);
    if (contact && nowMs < contact.channelUntilMs) this.#toPeer(contact, data, nowMs);
  }

  /** False when it has not sent to this peer before. */
  sendToKnownPeer(key: number | string, data: Buffer, nowMs: number): boolean {
    const contact = this.#contacts.get(key);
    if (contact) this.#toPeer(contact, data, nowMs);
    return contact !== undefined;
  }

  sendTo(peer: Peer, key: number | string, data: Buffer, nowMs: number): void {
    // Without a permission not even a socket is opened.
    if (nowMs >= (this.#permittedUntil.get(peer.announced.address) ?? 0)) return;
    const contact = this.#contact(peer, key);
    if (contact) this.#toPeer(contact, data, nowMs);
  }

  #contact(peer: Peer, key: number | string): Contact | undefined {
    const known = this.#contacts.get(key);
    if (known) return known;
    if (this.#contacts.size >= MAX_PEERS) return undefined;
    const contact: Contact = { peer, socket: null, waiting: [], channel: 0, channelUntilMs: 0 };
    this.#contacts.set(key, contact);
    const { open, client, relayed } = this.options;
    const onPacket = (data: Buffer) => this.#toClient(contact, data);
    void open({ peer, client: { address: client.address, port: client.port }, relayed, onPacket }).then(
      (socket) => this.#opened(contact, socket),
      // No descriptor, no port: the client's checks go unanswered, and the next packet tries again.
      () => void this.#contacts.delete(key),
    );
    return contact;
  }

  #opened(contact: Contact, socket: RelaySocket): void {
    if (this.#closed) {
      socket.close();
      return;
    }
    contact.socket = socket;
    for (const data of contact.waiting) socket.send(data);
    contact.waiting = [];
  }

  #isPermitted(contact: Contact, nowMs: number): boolean {
    return nowMs < (this.#permittedUntil.get(contact.peer.announced.address) ?? 0);
  }

  #toPeer(contact: Contact, data: Buffer, nowMs: number): void {
    const { counters } = this.options;
    if (!this.#isPermitted(contact, nowMs)) return;
    if (!this.#in.take(data.length, nowMs)) {
      counters.dropped++;
      return;
    }
    counters.packetsIn++;
    counters.bytesIn += data.length;
    if (contact.socket) contact.socket.send(data);
    else if (contact.waiting.length < MAX_WAITING) contact.waiting.push(Buffer.from(data));
    else counters.dropped++;
  }

  #toClient(contact: Contact, data: Buffer): void {
    const { counters, client, now } = this.options;
    const nowMs = now();
    if (this.#closed || !this.#isPermitted(contact, nowMs)) return;
    this.#answeredAtMs = nowMs;
    if (!this.#out.take(data.length, nowMs) || !client.send(this.#framed(contact, data, nowMs))) {
      counters.dropped++;
      return;
    }
    counters.packetsOut++;
    counters.bytesOut += data.length;
  }

  #framed(contact: Contact, data: Buffer, nowMs: number): Buffer {
    const { client, frame } = this.options;
    if (contact.channel === 0 || nowMs >= contact.channelUntilMs) return dataIndication(contact.peer.announced, data);
    return frame.subarray(0, writeChannelData(frame, contact.channel, data, client.protocol !== "udp"));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const { socket } of this.#contacts.values()) socket?.close();
    this.#contacts.clear();
    this.#byChannel.clear();
  }
}

function dataIndication(from: Address, data: Buffer): Buffer {
  const transaction = newTransaction();
  const peer = [ATTRIBUTE.peerAddress, maskAddress(from, transaction)] as const;
  return writeMessage(TURN_TYPE.data, transaction, [peer, [ATTRIBUTE.data, data]], { key: null });
}
