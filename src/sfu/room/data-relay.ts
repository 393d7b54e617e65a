/** The data channels of one participant: messages it sends, and messages it receives. */
import { TypeCompiler } from "@sinclair/typebox/compiler";
import {
  DATA_CHANNELS,
  DATA_FRAME_MAX_BYTES,
  DATA_PACKETS,
  DataChannelFrame,
  type DataDropReason,
} from "../../protocol/signaling.ts";
import { TokenBucket } from "../transport/token-bucket.ts";
import type { DataChannel } from "../werift/werift-hooks.ts";
import { type DataDialect, DataMessage } from "./data-message.ts";
import { numbered, readDataPacket, type Sender, StreamsForOthers } from "./livekit-data-packet.ts";
import { type DataSender, lastAcknowledged, ReliableQueue } from "./reliable-queue.ts";

export type DataKind = keyof typeof DATA_CHANNELS;

/** werift's queue takes quadratic time, so it never gets more than this; the rest waits here. */
const MAX_HANDED_OVER_BYTES = 65_536;
/** A client this far behind on reliable data has its channel closed; it may open another. */
const MAX_WAITING_BYTES = 4 * 1_024 * 1_024;
/** A reader this far behind slows down its senders until at most CAUGHT_UP_BYTES wait for it. */
const BEHIND_BYTES = 1_024 * 1_024;
const CAUGHT_UP_BYTES = 256 * 1_024;
/** By this time a client that connects or reconnects has opened its channels. Otherwise it gets data on its RTC socket. */
const AWAITED_MS = 20_000;
/** A thousand answered requests per second take two messages each. */
const MESSAGES_PER_SECOND = 2_500;
const BYTES_PER_SECOND = 4 * 1_024 * 1_024;
/** Twice the number of messages that a client sends without an acknowledgement. */
const MAX_HELD_MESSAGES = 1_000;
const MAX_HELD_BYTES = 1_024 * 1_024;
/** Messages are acknowledged as soon as one of these limits is reached, and otherwise at the next tick. */
const ACKNOWLEDGED_MESSAGES = 100;
const ACKNOWLEDGED_BYTES = 128 * 1_024;
/** The number of messages that a client keeps for repetition. Repetitions beyond it count against its message rate. */
const FREE_REPEATS = 400;
const HEARD = /^\{"heard":(\d{1,15})\}$/;
const MAX_HEARD_LENGTH = 32;

type ChannelFormat = { kind: DataKind; dialect: DataDialect; isLivekit: boolean };

const LIVEKIT_LABELS: ReadonlyMap<string, DataKind> = new Map([
  ["_reliable", "reliable"],
  ["_lossy", "lossy"],
]);

function formatOf({ label, protocol }: DataChannel): ChannelFormat | null {
  const livekitKind = LIVEKIT_LABELS.get(label);
  if (livekitKind) return { kind: livekitKind, dialect: "packets", isLivekit: true };
  const kind = label === DATA_CHANNELS.reliable || label === DATA_CHANNELS.lossy ? label : null;
  return kind && { kind, dialect: DATA_PACKETS.test(protocol) ? "packets" : "frames", isLivekit: false };
}

/** LiveKit clients always open this channel and treat its closing as an error. */
const IGNORED_LABEL = "_data_track";

const isDataFrame = TypeCompiler.Compile(DataChannelFrame);

export type DataOwner = {
  readonly self: Sender;
  /** Agents send text for other participants, such as what those have said. */
  readonly isAgent: boolean;
  readonly permissions: { publishData: boolean };
  emit(
    event:
      | { type: "dataDropped"; messages: number; reason: DataDropReason; reader?: string }
      | { type: "dataBehind"; reader: string; bytes: number }
      | { type: "requestAnswered"; requestId: string; packet: string },
  ): void;
};

export type DataSink = {
  /** Returns false when the room's or the sender's budget is exhausted. */
  relay(from: DataOwner, kind: DataKind, message: DataMessage, share: DataBudget, sender: DataSender): boolean;
};

export class DataRelay implements DataSender {
  /** Lossy messages that were dropped because the client is slow. */
  lost = 0;
  /** The number of the last reliable packet. A client that resumes repeats packets that may have been lost. */
  lastSequence = 0;
  /** The last numbered reliable frame, and whether its sender has been sent the acknowledgement. */
  #lastFrame = { stream: "", seq: 0 };
  #isAcknowledged = true;
  /** Repeated frames on the current channel. */
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
  #isLivekit = false;
  /** Messages of a client that waits for acknowledgements, held until its own budget or its room's allows them. */
  readonly #held: HeldMessage[] = [];
  #heldBytes = 0;
  #unacknowledged = { messages: 0, bytes: 0 };
  readonly #reliable = new ReliableQueue();
  readonly #streamsForOthers = new StreamsForOthers();
  /** The senders that were told that this client is behind. */
  readonly #slowed = new Set<DataSender>();
  /** Is true after the loss of a reliable channel. */
  #isReplaced = false;
  /** Since when the client's reliable channel has been expected. */
  #awaitedSinceMs = Number.NEGATIVE_INFINITY;

  constructor(room: DataSink, owner: DataOwner, now: () => number) {
    this.#room = room;
    this.#owner = owner;
    this.#messages = new TokenBucket(MESSAGES_PER_SECOND, MESSAGES_PER_SECOND, now);
    this.#bytes = new TokenBucket(BYTES_PER_SECOND, BYTES_PER_SECOND, now);
    this.#share = new DataBudget(SENDER_RATES, now);
    this.#now = now;
    this.#dropped = new DroppedData((dropped) => owner.emit({ type: "dataDropped", ...dropped }));
  }

  /** The number of this participant's messages that were not relayed. */
  get refused(): number {
    return this.#dropped.total;
  }

  /** LiveKit clients receive data even when they may not send any. */
  get alwaysReceives(): boolean {
    return this.#isLivekit;
  }

  /** Called when a LiveKit client begins to connect. It gets data only on its channels, so reliable messages wait for them. */
  expectPackets(): void {
    if (this.#isLivekit) return;
    this.#dialect = "packets";
    this.#isLivekit = true;
    this.#awaitedSinceMs = this.#now();
  }

  readerBehind(reader: string, bytes: number): void {
    this.#owner.emit({ type: "dataBehind", reader, bytes });
  }

  readerLost(reader: string, messages: number, reason: DataDropReason = "slow_reader"): void {
    this.#dropped.add(reason, messages, reader);
  }

  /** Called when a client offers data channels. What the RTC socket cannot carry then waits for them. */
  expectChannels(): void {
    if (this.#channels.size === 0 && !this.#isLivekit) this.#awaitedSinceMs = this.#now();
  }

  opened(channel: DataChannel): void {
    if (channel.label === IGNORED_LABEL) return;
    const format = formatOf(channel);
    if (!format || this.#openOf(format.kind)) channel.close();
    else {
      this.#dialect = format.dialect;
      this.#isLivekit = format.isLivekit;
      this.#channels.set(format.kind, channel);
      if (format.kind === "reliable") this.#began(channel);
    }
  }

  #began(channel: DataChannel): void {
    this.#repeats = 0;
    this.#reliable.channelOpened(lastAcknowledged(channel.protocol));
    // An acknowledgement of 0 announces to the client that acknowledgements will follow.
    this.#isAcknowledged = false;
    channel.onLow = () => this.#pump();
    this.#pump();
  }

  #openOf(kind: DataKind): DataChannel | null {
    const channel = this.#channels.get(kind);
    return channel?.isOpen ? channel : null;
  }

  received(channel: DataChannel, data: string | Buffer): void {
    if (this.#reliable.isAcknowledged && typeof data === "string" && this.#isHeard(data)) return;
    const format = formatOf(channel);
    const size = typeof data === "string" ? Buffer.byteLength(data) : data.length;
    const waits = format?.kind === "reliable" && format.dialect === "packets" && this.#reliable.isAcknowledged;
    if (waits) this.#hold({ format, data, size });
    else if (!this.#takeBudget(size)) this.#dropped.add("rate_limited");
    else {
      const reason = this.#passOn(format, this.#read(format, data, size));
      if (reason) this.#dropped.add(reason);
    }
  }

  /** Returns true for an acknowledgement of the client, which does not count as a message. */
  #isHeard(text: string): boolean {
    const seq = text.length <= MAX_HEARD_LENGTH ? HEARD.exec(text)?.[1] : undefined;
    if (seq === undefined) return false;
    this.#reliable.acknowledge(Number(seq));
    this.#pump();
    this.#tellCaughtUp();
    return true;
  }

  /** A client that waits for acknowledgements is slowed down by delaying them, so that it loses nothing to a limit. */
  #hold(message: HeldMessage): void {
    if (this.#held.length >= MAX_HELD_MESSAGES || this.#heldBytes + message.size > MAX_HELD_BYTES) {
      this.#dropped.add("rate_limited");
      return;
    }
    this.#held.push(message);
    this.#heldBytes += message.size;
    this.#relayHeld();
  }

  #relayHeld(): void {
    for (let next = this.#held[0]; next; next = this.#held[0]) {
      if (next.message === undefined) {
        if (!this.#takeBudget(next.size)) return;
        next.message = this.#read(next.format, next.data, next.size);
      }
      const reason = this.#passOn(next.format, next.message);
      if (reason === "rate_limited") return;
      if (reason) this.#dropped.add(reason);
      this.#held.shift();
      this.#heldBytes -= next.size;
      this.#unacknowledged.messages += 1;
      this.#unacknowledged.bytes += next.size;
      const { messages, bytes } = this.#unacknowledged;
      if (messages >= ACKNOWLEDGED_MESSAGES || bytes >= ACKNOWLEDGED_BYTES) this.#acknowledge();
    }
  }

  #takeBudget(size: number): boolean {
    if (!this.#messages.take(1)) return false;
    if (this.#bytes.take(size)) return true;
    this.#messages.give(1);
    return false;
  }

  /** Returns null if the message is relayed, now or earlier, and otherwise the reason why it is not. */
  #passOn(format: ChannelFormat | null, message: DataMessage | "again" | null): DataDropReason | null {
    if (!this.#owner.permissions.publishData) return "permission_denied";
    if (message === "again") {
      this.#repeats += 1;
      if (this.#repeats <= FREE_REPEATS) this.#messages.give(1);
      return null;
    }
    if (!format || !message) return "invalid";
    return this.#room.relay(this.#owner, format.kind, message, this.#share, this) ? null : "rate_limited";
  }

  #read(format: ChannelFormat | null, data: string | Buffer, size: number): DataMessage | "again" | null {
    if (!format || size > DATA_FRAME_MAX_BYTES) return null;
    if (typeof data === "string") {
      const frame = format.dialect === "frames" ? parseFrame(data) : null;
      if (format.kind === "reliable" && frame && this.#isKnown(frame)) return "again";
      return frame && DataMessage.ofFrame(this.#owner.self, frame);
    }
    const packet = format.dialect === "packets" ? readDataPacket(data) : null;
    if (!packet) return null;
    if (format.kind === "reliable" && packet.sequence > 0) {
      if (packet.sequence <= this.lastSequence) return "again";
      this.lastSequence = packet.sequence;
      this.#isAcknowledged = false;
    }
    if (this.#owner.isAgent) this.#streamsForOthers.nameSender(packet);
    return DataMessage.ofPacket(this.#owner.self, packet, data.length, this.#owner.isAgent);
  }

  #isKnown({ stream, seq }: DataChannelFrame): boolean {
    if (stream === undefined || seq === undefined) return false;
    if (stream === this.#lastFrame.stream && seq <= this.#lastFrame.seq) return true;
    this.#lastFrame = { stream, seq };
    this.#isAcknowledged = false;
    return false;
  }

  /** Returns false when the client has no channel and gets the message on its RTC socket. */
  deliver(kind: DataKind, message: DataMessage, sender: DataSender | null = null): boolean {
    const channel = (kind === "lossy" ? this.#openOf("lossy") : null) ?? this.#openOf("reliable");
    if (!channel) {
      const waits = kind === "reliable" && this.#waitsForChannel(message, sender);
      // The RTC socket carries text only.
      if (!waits && message.delivery === null) this.#cannotRead(sender);
      return waits;
    }
    const text = message.in(this.#dialect);
    if (text === null) {
      this.#cannotRead(sender);
      return true;
    }
    if (kind === "lossy") {
      if (channel.bufferedAmount > MAX_HANDED_OVER_BYTES) this.lost++;
      else channel.send(typeof text === "string" || this.#isLivekit ? text : numbered(text, 0));
      return true;
    }
    this.#reliable.add(message, sender);
    if (this.#reliable.bytes > MAX_WAITING_BYTES) {
      channel.close();
      this.#giveUp();
    } else {
      this.#pump();
      this.#slowDown(sender);
    }
    return true;
  }

  #cannotRead(sender: DataSender | null): void {
    sender?.readerLost(this.#owner.self.identity, 1, "text_only");
  }

  #slowDown(sender: DataSender | null): void {
    if (!sender || this.#reliable.bytes <= BEHIND_BYTES || this.#slowed.has(sender)) return;
    this.#slowed.add(sender);
    sender.readerBehind(this.#owner.self.identity, this.#reliable.bytes);
  }

  #tellCaughtUp(): void {
    if (this.#slowed.size === 0 || this.#reliable.bytes > CAUGHT_UP_BYTES) return;
    for (const sender of this.#slowed) sender.readerBehind(this.#owner.self.identity, this.#reliable.bytes);
    this.#slowed.clear();
  }

  /** Queues a message while the client's connection is being established; the RTC socket would carry text only. */
  #waitsForChannel(message: DataMessage, sender: DataSender | null): boolean {
    this.#noticeClosed();
    if (!this.#isAwaited) this.#giveUp();
    // A client that has opened one of its channels opens the other too.
    const follows = (this.#isReplaced && !this.#reliable.isEmpty) || this.#openOf("lossy") !== null;
    const waits = this.#isAwaited && (follows || this.#isLivekit || message.delivery === null);
    if (waits && this.#reliable.bytes + message.size <= MAX_WAITING_BYTES) {
      this.#reliable.add(message, sender);
      this.#slowDown(sender);
      return true;
    }
    return false;
  }

  /** A closed channel may be followed by another. */
  #noticeClosed(): void {
    const channel = this.#channels.get("reliable");
    if (!channel || channel.isOpen) return;
    this.#channels.delete("reliable");
    this.#isReplaced = true;
    this.#awaitedSinceMs = this.#now();
  }

  get #isAwaited(): boolean {
    return this.#now() - this.#awaitedSinceMs <= AWAITED_MS;
  }

  tick(): void {
    this.#noticeClosed();
    this.#pump();
    this.#relayHeld();
    this.#tellCaughtUp();
    if (!this.#isAcknowledged) this.#acknowledge();
    this.#dropped.tick(this.#now());
  }

  /** Another connection follows, and waiting and unacknowledged messages are sent on its channel. */
  reset(): void {
    this.#channels.clear();
    this.#isReplaced = true;
    this.#awaitedSinceMs = this.#now();
  }

  #pump(): void {
    const channel = this.#reliable.hasNext ? this.#openOf("reliable") : null;
    while (channel && this.#reliable.hasNext && channel.bufferedAmount < MAX_HANDED_OVER_BYTES) {
      const text = this.#reliable.take(this.#dialect, (sender) => this.#cannotRead(sender));
      if (text !== null) channel.send(text);
    }
  }

  /** Acknowledges the client's messages, so that it need not keep them. */
  #acknowledge(): void {
    const channel = this.#openOf("reliable");
    if (!channel || !this.#reliable.isAcknowledged) return;
    this.#isAcknowledged = true;
    this.#unacknowledged = { messages: 0, bytes: 0 };
    channel.send(JSON.stringify({ heard: this.#dialect === "packets" ? this.lastSequence : this.#lastFrame.seq }));
  }

  /** Discards what waits for the client, and tells the client and the senders so. Messages that were under way may have arrived. */
  #giveUp(): void {
    let all = 0;
    const { identity } = this.#owner.self;
    for (const [sender, messages] of this.#reliable.clear()) {
      sender?.readerLost(identity, messages);
      all += messages;
    }
    if (all > 0) this.readerLost(identity, all);
    this.#tellCaughtUp();
  }
}

type HeldMessage = {
  format: ChannelFormat;
  data: string | Buffer;
  size: number;
  /** Undefined while the message is over the client's own budget, and so has not been parsed. */
  message?: DataMessage | "again" | null;
};

function parseFrame(text: string): DataChannelFrame | null {
  try {
    const frame: unknown = JSON.parse(text);
    return isDataFrame.Check(frame) ? frame : null;
  } catch {
    return null;
  }
}

const DROPS_REPORTED_EVERY_MS = 1_000;

type Dropped = { messages: number; reason: DataDropReason; reader?: string };

/** Counts dropped messages by reason and reader, and reports them at most once a second. */
export class DroppedData {
  total = 0;
  readonly #unreported = new Map<string, Dropped>();
  readonly #report: (dropped: Dropped) => void;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(report: (dropped: Dropped) => void) {
    this.#report = report;
  }

  add(reason: DataDropReason, messages = 1, reader?: string): void {
    this.total += messages;
    const key = `${reason} ${reader ?? ""}`;
    const known = this.#unreported.get(key);
    if (known) known.messages += messages;
    else this.#unreported.set(key, { messages, reason, ...(reader === undefined ? {} : { reader }) });
  }

  tick(nowMs: number): void {
    if (this.#unreported.size === 0 || nowMs - this.#reportedAtMs < DROPS_REPORTED_EVERY_MS) return;
    this.#reportedAtMs = nowMs;
    for (const dropped of this.#unreported.values()) this.#report(dropped);
    this.#unreported.clear();
  }
}

type Rates = { deliveriesPerSecond: number; bytesPerSecond: number };

/** Enough for eighty messages a second to thirty participants, for example. */
const SENDER_RATES: Rates = { deliveriesPerSecond: 2_500, bytesPerSecond: 8 * 1_024 * 1_024 };
/** For all senders of a room together, so that the worker has capacity left for media. */
export const ROOM_RATES: Rates = { deliveriesPerSecond: 4_000, bytesPerSecond: 16 * 1_024 * 1_024 };

/**
 * A budget of deliveries, counted per recipient, that saves up one second. A message may overdraw it, because a message to a
 * thousand viewers is sent to all of them or to none; the next one waits until the budget is positive.
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
