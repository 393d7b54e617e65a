// Puts packets of one stream, which arrive in any order, together to frames in order. A missing packet is waited for as long as
// it may still be retransmitted; then its frame is dropped, with every frame that depends on it.

import type { Depacketizer, EncodedFrame, Span } from "./frame.ts";

/** A little longer than lost packets are requested. */
const PATIENCE_MS = 1_200;
/** One second at 20 Mbit/s, so that a sender cannot claim more memory. */
const MAX_WAITING = 2_048;
/** No frame is as large, so a frame without an end is not kept forever. */
const MAX_FRAME_BYTES = 8 * 1024 * 1024;

type Waiting = { payload: Span; timestamp: number; marker: boolean; arrivedMs: number };

type AssemblerOutput = {
  frame(frame: EncodedFrame): void;
  /** Frames cannot be decoded until the next keyframe. */
  needKeyframe(): void;
};

export class FrameAssembler {
  readonly #waiting = new Map<number, Waiting>();
  readonly #frames: Depacketizer;
  readonly #isVideo: boolean;
  readonly #output: AssemblerOutput;
  /** The number of the next packet; null before the first. */
  #next: number | null = null;
  #highest = 0;
  #payloads: Span[] = [];
  #bytes = 0;
  #timestamp = 0;
  /** The current frame lacks a packet. */
  #damaged = false;
  #awaitsKeyframe: boolean;
  damagedFrames = 0;

  constructor(frames: Depacketizer, isVideo: boolean, output: AssemblerOutput) {
    this.#frames = frames;
    this.#isVideo = isVideo;
    this.#awaitsKeyframe = isVideo;
    this.#output = output;
  }

  /** `extended` is the unwrapped sequence number. The payload is kept until its frame is complete; it may be empty. */
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

  /** Gives up packets that have been missing for too long; called periodically. */
  tick(nowMs: number): void {
    this.#advance(nowMs);
  }

  /** Starts again with the next packet, because numbers pass unseen while the sender is muted. */
  interrupt(): void {
    if (this.#next === null) return;
    this.end();
    this.#next = null;
    this.#awaitsKeyframe = this.#isVideo;
  }

  /** Outputs all complete frames behind gaps when no more packets will come. */
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

  /** Skips the gap at `from` to the next packet and returns true once it has been waited for long enough. */
  #giveUp(from: number, nowMs: number): boolean {
    let at = from;
    while (at <= this.#highest && !this.#waiting.has(at)) at++;
    const behind = this.#waiting.get(at);
    if (!behind) return false;
    if (nowMs - behind.arrivedMs < PATIENCE_MS && this.#waiting.size < MAX_WAITING) return false;
    this.#damaged = true;
    // The next packet may belong to the same frame or begin another: either way the current one is incomplete.
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
      // The rest of the same frame is damaged as well.
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
      // The request is repeated with every frame, because it or the keyframe may have been lost.
      this.#output.needKeyframe();
      return;
    }
    this.#awaitsKeyframe = false;
    const { spans, keyframe, width, height } = made;
    this.#output.frame({ timestamp: this.#timestamp, spans, keyframe, width, height });
  }
}
