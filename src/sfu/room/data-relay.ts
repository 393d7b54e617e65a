/** Data of one participant: the two channels its client opens, what it says on them, and what it is told. */
import { TypeCompiler } from "@sinclair/typebox/compiler";
import {
  DATA_CHANNELS,
  DATA_FRAME_MAX_BYTES,
  DataChannelFrame,
  type DataDropReason,
} from "../../protocol/signaling.ts";
import { TokenBucket } from "../transport/token-bucket.ts";
import type { DataChannel } from "../werift/werift-hooks.ts";
import { type DataDialect, DataMessage } from "./data-message.ts";
import { readDataPacket, type Sender } from "./livekit-data-packet.ts";
import { lastAcknowledged, ReliableQueue } from "./reliable-queue.ts";

export type DataKind = keyof typeof DATA_CHANNELS;

/** werift's queue is quadratic: it never gets more than this, the rest waits here. */
const MAX_HANDED_OVER_BYTES = 65_536;
/** A reader this far behind on reliable data has its channel closed; it may open another. */
const MAX_WAITING_BYTES = 4 * 1_024 * 1_024;
/** A client that connects, also once more, has its channels by then, or gets what comes on its socket if it has one for that. */
const AWAITED_MS = 20_000;
const MESSAGES_PER_SECOND = 500;
const BYTES_PER_SECOND = 4 * 1_024 * 1_024;
const CHANNELS_PER_KIND = 1;
/** As many as a client keeps; who repeats more pays for it as for messages. */
const FREE_REPEATS = 400;
const HEARD = /^\{"heard":(\d{1,15})\}$/;
const MAX_HEARD_LENGTH = 32;

/** What each label says of its channel. */
const LABELS: Record<string, { kind: DataKind; dialect: DataDialect }> = {
  [DATA_CHANNELS.reliable]: { kind: "reliable", dialect: "frames" },
  [DATA_CHANNELS.lossy]: { kind: "lossy", dialect: "frames" },
  _reliable: { kind: "reliable", dialect: "packets" },
  _lossy: { kind: "lossy", dialect: "packets" },
};
/** Opened by LiveKit's clients whether they use it or not; closing it is an error to them. */
const IGNORED_LABEL = "_data_track";

const isDataFrame = TypeCompiler.Compile(DataChannelFrame);

export type DataOwner = {
  readonly self: Sender;
  readonly permissions: { publishData: boolean };
  emit(event: { type: "dataDropped"; messages: number; reason: DataDropReason }): void;
};

export type DataSink = {
  /** False: more than the room, or this sender's `share` of it, may deliver now. */
  relay(from: DataOwner, kind: DataKind, message: DataMessage, share: DataBudget): boolean;
};

export class DataRelay {
  /** Lossy messages a slow reader did not get. */
  lost = 0;
  /** Of the last reliable packet; a client that resumes sends again what we may not have had. */
  lastSequence = 0;
  /** The last reliable frame of those that are numbered, and whether its sender knows that we have it. */
  #lastFrame = { stream: "", seq: 0 };
  #isTold = true;
  /** Frames of the current channel that we had already. */
  #repeats = 0;
  readonly #room: DataSink;
  readonly #owner: DataOwner;
  readonly #channels = new Map<DataKind, DataChannel>();
  readonly #messages: TokenBucket;
  readonly #bytes: TokenBucket;
  readonly #share: DataBudget;
  readonly #dropped: DroppedData;
  readonly #now: () => number;
  #dialect: DataDialect = "frames";
  readonly #reliable = new ReliableQueue();
  /** Since when the reliable channel is to come. */
  #awaitedSinceMs = Number.NEGATIVE_INFINITY;

  constructor(room: DataSink, owner: DataOwner, now: () => number) {
    this.#room = room;
    this.#owner = owner;
    this.#messages = new TokenBucket(MESSAGES_PER_SECOND, MESSAGES_PER_SECOND, now);
    this.#bytes = new TokenBucket(BYTES_PER_SECOND, BYTES_PER_SECOND, now);
    this.#share = new DataBudget(SENDER_RATES, now);
    this.#now = now;
    this.#dropped = new DroppedData((messages, reason) => owner.emit({ type: "dataDropped", messages, reason }));
  }

  /** Messages of this participant that were not passed on. */
  get refused(): number {
    return this.#dropped.total;
  }

  get isOpen(): boolean {
    for (const channel of this.#channels.values()) if (channel.isOpen) return true;
    return false;
  }

  /** LiveKit's clients get data even when they may not send any. */
  get alwaysReceives(): boolean {
    return this.#dialect === "packets";
  }

  /** Of a client of LiveKit's that begins to connect: its channels are all that it gets data on, so what is reliable waits. */
  expectPackets(): void {
    if (this.#dialect === "packets") return;
    this.#dialect = "packets";
    this.#awaitedSinceMs = this.#now();
  }

  opened(channel: DataChannel): void {
    if (channel.label === IGNORED_LABEL) return;
    const label = LABELS[channel.label];
    if (!label || this.#openOf(label.kind).length >= CHANNELS_PER_KIND) channel.close();
    else {
      this.#dialect = label.dialect;
      this.#channels.set(label.kind, channel);
      if (label.kind === "reliable") this.#began(channel);
    }
  }

  #began(channel: DataChannel): void {
    this.#repeats = 0;
    this.#reliable.channelOpened(lastAcknowledged(channel.protocol));
    // Also that it is nothing so far: so its client knows that it will be told.
    this.#isTold = false;
    this.#pump();
  }

  #openOf(kind: DataKind): DataChannel[] {
    const channel = this.#channels.get(kind);
    return channel?.isOpen ? [channel] : [];
  }

  received(channel: DataChannel, data: string | Buffer): void {
    if (this.#reliable.isAcknowledged && typeof data === "string" && this.#isHeard(data)) return;
    const reason = this.#passOn(LABELS[channel.label]?.kind, data);
    if (reason) this.#dropped.add(reason);
  }

  /** What the client says that it has had, which counts as no message. */
  #isHeard(text: string): boolean {
    const seq = text.length <= MAX_HEARD_LENGTH ? HEARD.exec(text)?.[1] : undefined;
    if (seq !== undefined) this.#reliable.acknowledge(Number(seq));
    return seq !== undefined;
  }

  /** Null when it went on, or had already; otherwise why not. */
  #passOn(kind: DataKind | undefined, data: string | Buffer): DataDropReason | null {
    const size = typeof data === "string" ? Buffer.byteLength(data) : data.length;
    if (!this.#messages.take(1) || !this.#bytes.take(size)) return "rate_limited";
    if (!this.#owner.permissions.publishData) return "permission_denied";
    const message = kind && size <= DATA_FRAME_MAX_BYTES ? this.#read(kind, data) : null;
    if (message === "again") {
      this.#repeats += 1;
      if (this.#repeats <= FREE_REPEATS) this.#messages.give(1);
      return null;
    }
    if (!kind || !message) return "invalid";
    return this.#room.relay(this.#owner, kind, message, this.#share) ? null : "rate_limited";
  }

  #read(kind: DataKind, data: string | Buffer): DataMessage | "again" | null {
    if (typeof data === "string") {
      const frame = this.#dialect === "frames" ? parseFrame(data) : null;
      if (kind === "reliable" && frame && this.#isKnown(frame)) return "again";
      return frame && DataMessage.ofFrame(this.#owner.self, frame);
    }
    const packet = this.#dialect === "packets" ? readDataPacket(data) : null;
    if (!packet) return null;
    if (kind === "reliable" && packet.sequence > 0) {
      if (packet.sequence <= this.lastSequence) return "again";
      this.lastSequence = packet.sequence;
    }
    return DataMessage.ofPacket(this.#owner.self, data, packet);
  }

  #isKnown({ stream, seq }: DataChannelFrame): boolean {
    if (stream === undefined || seq === undefined) return false;
    if (stream === this.#lastFrame.stream && seq <= this.#lastFrame.seq) return true;
    this.#lastFrame = { stream, seq };
    this.#isTold = false;
    return false;
  }

  /** False: this client has no channel, tell it on its socket. */
  deliver(kind: DataKind, message: DataMessage): boolean {
    const channel = this.#openOf(kind)[0] ?? this.#openOf("reliable")[0] ?? this.#openOf("lossy")[0];
    if (!channel || (kind === "reliable" && !this.#carrier))
      return kind === "reliable" && this.#waitsForChannel(message);
    const text = message.in(this.#dialect);
    if (text === null) return true;
    if (kind === "lossy") {
      if (channel.bufferedAmount > MAX_HANDED_OVER_BYTES) this.lost++;
      else channel.send(text);
      return true;
    }
    this.#reliable.add(text, message.size);
    if (this.#reliable.bytes > MAX_WAITING_BYTES) this.#giveUp(channel);
    else this.#pump();
    return true;
  }

  /** Its connection is on its way: what comes now has to wait behind what waits already. */
  #waitsForChannel(message: DataMessage): boolean {
    this.#noticeClosed();
    if (!this.#isAwaited) this.#reliable.clear();
    const waits = !this.#reliable.isEmpty || this.#awaitsPackets;
    const text = waits ? message.in(this.#dialect) : null;
    if (text === null || this.#reliable.bytes + message.size > MAX_WAITING_BYTES) return false;
    this.#reliable.add(text, message.size);
    return true;
  }

  /** Its client may open another. */
  #noticeClosed(): void {
    const channel = this.#channels.get("reliable");
    if (!channel || channel.isOpen) return;
    this.#channels.delete("reliable");
    this.#awaitedSinceMs = this.#now();
  }

  get #isAwaited(): boolean {
    return this.#now() - this.#awaitedSinceMs <= AWAITED_MS;
  }

  get #awaitsPackets(): boolean {
    return this.#dialect === "packets" && this.#isAwaited;
  }

  tick(): void {
    this.#noticeClosed();
    this.#pump();
    if (!this.#isTold) this.#tell();
    this.#dropped.tick(this.#now());
  }

  /** Another connection follows: what was not handed over waits for its channel, and so does what may not have arrived. */
  reset(): void {
    this.#channels.clear();
    this.#awaitedSinceMs = this.#now();
  }

  /** Where what is reliable goes. Who says what arrived, or has one channel after the other, gets it where nothing is lost. */
  get #carrier(): DataChannel | undefined {
    const [reliable] = this.#openOf("reliable");
    if (reliable) return reliable;
    return this.#reliable.isAcknowledged || this.#awaitsPackets ? undefined : this.#openOf("lossy")[0];
  }

  #pump(): void {
    const channel = this.#reliable.next && this.#carrier;
    while (channel && this.#reliable.next && channel.bufferedAmount < MAX_HANDED_OVER_BYTES) {
      const text = this.#reliable.take();
      if (text !== null) channel.send(text);
    }
  }

  /** How far we are with what the client sends: it need not keep that any longer. */
  #tell(): void {
    const [channel] = this.#reliable.isAcknowledged ? this.#openOf("reliable") : [];
    if (!channel) return;
    this.#isTold = true;
    channel.send(JSON.stringify({ heard: this.#lastFrame.seq }));
  }

  #giveUp(channel: DataChannel): void {
    channel.close();
    this.#reliable.clear();
  }
}

function parseFrame(text: string): DataChannelFrame | null {
  try {
    const frame: unknown = JSON.parse(text);
    return isDataFrame.Check(frame) ? frame : null;
  } catch {
    return null;
  }
}

/** Counts what a sender's messages were refused for, so that it is told; at most once a second, however many there are. */

const TOLD_EVERY_MS = 1_000;

class DroppedData {
  total = 0;
  readonly #untold = new Map<DataDropReason, number>();
  readonly #tell: (messages: number, reason: DataDropReason) => void;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(tell: (messages: number, reason: DataDropReason) => void) {
    this.#tell = tell;
  }

  add(reason: DataDropReason): void {
    this.total += 1;
    this.#untold.set(reason, (this.#untold.get(reason) ?? 0) + 1);
  }

  tick(nowMs: number): void {
    if (this.#untold.size === 0 || nowMs - this.#toldAtMs < TOLD_EVERY_MS) return;
    this.#toldAtMs = nowMs;
    for (const [reason, messages] of this.#untold) this.#tell(messages, reason);
    this.#untold.clear();
  }
}

/** How much data may be delivered: every recipient costs, so that one sender to many cannot take the worker. */

type Rates = { deliveriesPerSecond: number; bytesPerSecond: number };

/** Of one sender. Sixty messages a second to thirty others, say. */
const SENDER_RATES: Rates = { deliveriesPerSecond: 2_000, bytesPerSecond: 8 * 1_024 * 1_024 };
/** Of all senders in a room together: what is left of the worker is for media. */
export const ROOM_RATES: Rates = { deliveriesPerSecond: 4_000, bytesPerSecond: 16 * 1_024 * 1_024 };

/**
 * A second's worth is saved up. One message may go into debt, because a message to a thousand viewers is either sent to all
 * of them or to none; the next waits until the debt is paid.
 */
export class DataBudget {
  readonly #rates: Rates;
  readonly #now: () => number;
  #deliveries: number;
  #bytes: number;
  #at: number;

  constructor(rates: Rates, now: () => number) {
    this.#rates = rates;
    this.#now = now;
    this.#deliveries = rates.deliveriesPerSecond;
    this.#bytes = rates.bytesPerSecond;
    this.#at = now();
  }

  get isSpent(): boolean {
    const now = this.#now();
    const seconds = (now - this.#at) / 1_000;
    const { deliveriesPerSecond, bytesPerSecond } = this.#rates;
    this.#deliveries = Math.min(deliveriesPerSecond, this.#deliveries + seconds * deliveriesPerSecond);
    this.#bytes = Math.min(bytesPerSecond, this.#bytes + seconds * bytesPerSecond);
    this.#at = now;
    return this.#deliveries <= 0 || this.#bytes <= 0;
  }

  spend(recipients: number, bytesEach: number): void {
    this.#deliveries -= recipients;
    this.#bytes -= recipients * bytesEach;
  }
}
