// Packets of one stream, in whatever order they come, to frames in their order. What is lost is waited for as long as it
// may still be repaired; then the frame is left out, and with it every picture that was made from it.

import type { Depacketizer, EncodedFrame, Span } from "./frame.ts";

/** A little longer than a lost packet is asked for. */
const PATIENCE_MS = 1_200;
/** Some 1,200-byte packets of a second at 20 Mbit/s: more would be memory that somebody else decides about. */
const MAX_WAITING = 2_048;
/** No picture is as large: a frame that has no end is not kept until it has. */
const MAX_FRAME_BYTES = 8 * 1024 * 1024;

type Waiting = { payload: Span; timestamp: number; marker: boolean; arrivedMs: number };

export type AssemblerOutput = {
  frame(frame: EncodedFrame): void;
  /** Pictures cannot be decoded until the next keyframe. */
  needKeyframe(): void;
};

export class FrameAssembler {
  readonly #waiting = new Map<number, Waiting>();
  readonly #frames: Depacketizer;
  readonly #isVideo: boolean;
  readonly #output: AssemblerOutput;
  /** Number of the packet that comes next; null before the first. */
  #next: number | null = null;
  #highest = 0;
  #payloads: Span[] = [];
  #bytes = 0;
  #timestamp = 0;
  /** The frame at hand lacks a packet. */
  #damaged = false;
  #awaitsKeyframe: boolean;
  /** Counters for the record. */
  damagedFrames = 0;

  constructor(frames: Depacketizer, isVideo: boolean, output: AssemblerOutput) {
    this.#frames = frames;
    this.#isVideo = isVideo;
    this.#awaitsKeyframe = isVideo;
    this.#output = output;
  }

  /** `extended`: the unwrapped sequence number. The payload is kept until its frame is whole. Empty ones fill their number. */
  add(extended: number, timestamp: number, marker: boolean, payload: Span, nowMs: number): void {
    this.#next ??= extended;
    if (extended === this.#next && this.#waiting.size === 0) {
      if (extended > this.#highest) this.#highest = extended;
      this.#next = extended + 1;
      this.#take(payload, timestamp, marker);
      return;
    }
    if (extended < this.#next || this.#waiting.has(extended)) return;
    this.#highest = Math.max(this.#highest, extended);
    this.#waiting.set(extended, { payload, timestamp, marker, arrivedMs: nowMs });
    this.#advance(nowMs);
  }

  /** Call now and then: gives up on what has been missing for too long. */
  tick(nowMs: number): void {
    this.#advance(nowMs);
  }

  /** The sender is muted, and numbers pass unseen: what comes next begins anew. */
  interrupt(): void {
    if (this.#next === null) return;
    this.end();
    this.#next = null;
    this.#awaitsKeyframe = this.#isVideo;
  }

  /** Nothing more will come: what waits behind a gap is written as far as it can be. */
  end(): void {
    this.#advance(Number.POSITIVE_INFINITY);
    this.#close();
  }

  #advance(nowMs: number): void {
    while (this.#next !== null && this.#waiting.size > 0) {
      const packet = this.#waiting.get(this.#next);
      if (packet) {
        this.#waiting.delete(this.#next);
        this.#next++;
        this.#take(packet.payload, packet.timestamp, packet.marker);
      } else if (!this.#giveUp(this.#next, nowMs)) return;
    }
  }

  /** True when the gap at `from` has been waited for long enough; the next packet that is there goes on. */
  #giveUp(from: number, nowMs: number): boolean {
    let at = from;
    while (at <= this.#highest && !this.#waiting.has(at)) at++;
    const behind = this.#waiting.get(at);
    if (!behind) return false;
    if (nowMs - behind.arrivedMs < PATIENCE_MS && this.#waiting.size < MAX_WAITING) return false;
    this.#damaged = true;
    // What comes may belong to the same frame or begin another: either way the one at hand is not whole.
    if (behind.timestamp !== this.#timestamp) {
      this.#close();
      this.#damaged = true;
    }
    this.#timestamp = behind.timestamp;
    this.#next = at;
    return true;
  }

  #take(payload: Span, timestamp: number, marker: boolean): void {
    if (timestamp !== this.#timestamp && this.#payloads.length > 0) this.#close();
    this.#timestamp = timestamp;
    if (payload.length > 0) this.#payloads.push(payload);
    this.#bytes += payload.length;
    if (this.#bytes > MAX_FRAME_BYTES) {
      this.#damaged = true;
      this.#close();
      // Of what is still to come of it, too.
      this.#damaged = true;
    }
    if (marker || !this.#isVideo) this.#close();
  }

  #close(): void {
    const payloads = this.#payloads;
    const damaged = this.#damaged;
    this.#payloads = [];
    this.#bytes = 0;
    this.#damaged = false;
    if (payloads.length === 0 && !damaged) return;
    const made = damaged && this.#isVideo ? null : payloads.length > 0 ? this.#frames.assemble(payloads) : null;
    if (!made) {
      if (payloads.length > 0) this.damagedFrames++;
      if (!this.#isVideo) return;
      this.#awaitsKeyframe = true;
      this.#output.needKeyframe();
      return;
    }
    if (this.#awaitsKeyframe && !made.keyframe) {
      // Again and again: nobody may have asked yet, and what was asked may have been lost.
      this.#output.needKeyframe();
      return;
    }
    this.#awaitsKeyframe = false;
    const { spans, keyframe, width, height } = made;
    this.#output.frame({ timestamp: this.#timestamp, spans, keyframe, width, height });
  }
}
