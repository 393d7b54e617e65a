/** Data of one participant: the two channels its client opens, what it says on them, and what it is told. */
import { TypeCompiler } from "@sinclair/typebox/compiler";
import {
  DATA_CHANNELS,
  DATA_FRAME_MAX_BYTES,
  type DataChannelDelivery,
  DataChannelFrame,
} from "../../protocol/signaling.ts";
import { TokenBucket } from "../transport/token-bucket.ts";
import type { DataChannel } from "../transport/werift-hooks.ts";
import { DataBudget, SENDER_RATES } from "./data-budget.ts";

export type DataKind = keyof typeof DATA_CHANNELS;

/** werift's queue is quadratic: it never gets more than this, the rest waits here. */
const MAX_HANDED_OVER_BYTES = 65_536;
/** A reader this far behind on reliable data has its channel closed; it may open another. */
const MAX_WAITING_BYTES = 4 * 1_024 * 1_024;
const MESSAGES_PER_SECOND = 500;
const BYTES_PER_SECOND = 4 * 1_024 * 1_024;
const CHANNELS_PER_KIND = 1;

const isDataFrame = TypeCompiler.Compile(DataChannelFrame);

export type DataOwner = {
  readonly self: { identity: string };
  readonly permissions: { publishData: boolean };
};

export type DataSink = {
  /** False: more than the room, or this sender's `share` of it, may deliver now. */
  relay(from: DataOwner, kind: DataKind, frame: DataChannelFrame, share: DataBudget): boolean;
};

export class DataRelay {
  refused = 0;
  /** Lossy messages a slow reader did not get. */
  lost = 0;
  readonly #room: DataSink;
  readonly #owner: DataOwner;
  readonly #channels = new Map<DataKind, DataChannel>();
  readonly #messages: TokenBucket;
  readonly #bytes: TokenBucket;
  readonly #share: DataBudget;
  #waiting: string[] = [];
  #waitingBytes = 0;

  constructor(room: DataSink, owner: DataOwner, now: () => number) {
    this.#room = room;
    this.#owner = owner;
    this.#messages = new TokenBucket(MESSAGES_PER_SECOND, MESSAGES_PER_SECOND, now);
    this.#bytes = new TokenBucket(BYTES_PER_SECOND, BYTES_PER_SECOND, now);
    this.#share = new DataBudget(SENDER_RATES, now);
  }

  get isOpen(): boolean {
    for (const channel of this.#channels.values()) if (channel.isOpen) return true;
    return false;
  }

  opened(channel: DataChannel): void {
    const kind = kindOf(channel);
    if (kind === null || this.#openOf(kind).length >= CHANNELS_PER_KIND) channel.close();
    else this.#channels.set(kind, channel);
  }

  #openOf(kind: DataKind): DataChannel[] {
    const channel = this.#channels.get(kind);
    return channel?.isOpen ? [channel] : [];
  }

  received(channel: DataChannel, data: string | Buffer): void {
    const kind = kindOf(channel);
    const size = typeof data === "string" ? Buffer.byteLength(data) : data.length;
    const within = this.#messages.take(1) && this.#bytes.take(size);
    const frame = within && kind && typeof data === "string" && size <= DATA_FRAME_MAX_BYTES ? parseFrame(data) : null;
    const allowed = frame && kind && this.#owner.permissions.publishData;
    if (!allowed || !this.#room.relay(this.#owner, kind, frame, this.#share)) this.refused++;
  }

  /** False: this client has no channel, tell it on its socket. */
  deliver(kind: DataKind, delivery: DataChannelDelivery, text: string): boolean {
    const channel = this.#openOf(kind)[0] ?? this.#openOf("reliable")[0] ?? this.#openOf("lossy")[0];
    if (!channel) return false;
    if (kind === "lossy") {
      if (channel.bufferedAmount > MAX_HANDED_OVER_BYTES) this.lost++;
      else channel.send(text);
      return true;
    }
    this.#waiting.push(text);
    this.#waitingBytes += delivery.payload.length;
    if (this.#waitingBytes > MAX_WAITING_BYTES) this.#giveUp(channel);
    else this.#pump();
    return true;
  }

  tick(): void {
    if (this.#waiting.length > 0) this.#pump();
  }

  reset(): void {
    this.#channels.clear();
    this.#waiting = [];
    this.#waitingBytes = 0;
  }

  #pump(): void {
    const channel = this.#openOf("reliable")[0] ?? this.#openOf("lossy")[0];
    if (!channel) return;
    while (this.#waiting.length > 0 && channel.bufferedAmount < MAX_HANDED_OVER_BYTES) {
      channel.send(this.#waiting.shift() ?? "");
    }
    if (this.#waiting.length === 0) this.#waitingBytes = 0;
  }

  #giveUp(channel: DataChannel): void {
    channel.close();
    this.#waiting = [];
    this.#waitingBytes = 0;
  }
}

function kindOf(channel: DataChannel): DataKind | null {
  if (channel.label === DATA_CHANNELS.reliable) return "reliable";
  return channel.label === DATA_CHANNELS.lossy ? "lossy" : null;
}

function parseFrame(text: string): DataChannelFrame | null {
  try {
    const frame: unknown = JSON.parse(text);
    return isDataFrame.Check(frame) ? frame : null;
  } catch {
    return null;
  }
}
