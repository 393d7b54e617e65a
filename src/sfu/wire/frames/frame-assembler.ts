// Puts packets of one stream, which arrive in any order, together to frames in order. A missing packet is waited for as long as
// it may still be retransmitted; then its frame is dropped, with every frame that depends on it.

import type { Depacketizer, EncodedFrame, Span } from "./frame.ts";

/** How long a missing packet is waited for: a little longer than it is requested. */
const PATIENCE_MS = 1_200;
/** One second at 20 Mbit/s, so that a sender cannot claim more memory. */
const MAX_WAITING = 2_048;
/** No frame is as large, so a frame without an end is not kept forever. */
const MAX_FRAME_BYTES = 8 * 1024 * 1024;
/** Packets of 512 bytes; smaller ones would keep more memory in their buffers than they have content. */
const MAX_FRAME_PACKETS = 16_384;

type Waiting = { extended: number; payload: Span; timestamp: number; marker: boolean; arrivedMs: number };

type AssemblerOutput = {
  frame(frame: EncodedFrame): void;
  /** Frames cannot be decoded until the next keyframe. */
  needKeyframe(): void;
};

export class FrameAssembler {
  /** Ordered by number, so that the end of a gap is known however wide it is. */
  readonly #waiting: Waiting[] = [];
  readonly #frames: Depacketizer;
  readonly #isVideo: boolean;
  readonly #output: AssemblerOutput;
  /** The number of the next packet; null before the first. */
  #next: number | null = null;
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
    if (extended === this.#next && this.#waiting.length === 0) {
      this.#next = extended + 1;
      this.#take(payload, timestamp, marker);
      return;
    }
    const at = this.#placeOf(extended);
    if (extended < this.#next || this.#waiting[at]?.extended === extended) return;
    this.#waiting.splice(at, 0, { extended, payload, timestamp, marker, arrivedMs: nowMs });
    this.#advance(nowMs);
  }

  /** Stops waiting for packets that have been missing for too long; called periodically. */
  tick(nowMs: number): void {
    this.#advance(nowMs);
  }

  /** Starts again with the next packet, because numbers advance unseen while the sender is muted. */
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

  /** The index in `#waiting` of the first packet that is not before `extended`. */
  #placeOf(extended: number): number {
    let [from, to] = [0, this.#waiting.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#waiting[middle] as Waiting).extended < extended) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #advance(nowMs: number): void {
    for (let first = this.#waiting[0]; first; first = this.#waiting[0]) {
      if (first.extended !== this.#next && !this.#giveUp(first, nowMs)) return;
      this.#waiting.shift();
      this.#next = first.extended + 1;
      this.#take(first.payload, first.timestamp, first.marker);
    }
  }

  /** Returns true once the gap before `behind` has been waited for long enough. */
  #giveUp(behind: Waiting, nowMs: number): boolean {
    if (nowMs - behind.arrivedMs < PATIENCE_MS && this.#waiting.length < MAX_WAITING) return false;
    this.#damaged = true;
    // The next packet may belong to the same frame or begin another: either way the current one is incomplete.
    if (behind.timestamp !== this.#timestamp) {
      this.#close();
      this.#damaged = true;
    }
    this.#timestamp = behind.timestamp;
    return true;
  }

  #take(payload: Span, timestamp: number, marker: boolean): void {
    if (timestamp !== this.#timestamp && this.#payloads.length > 0) this.#close();
    this.#timestamp = timestamp;
    if (payload.length > 0) this.#payloads.push(payload);
    this.#bytes += payload.length;
    if (this.#bytes > MAX_FRAME_BYTES || this.#payloads.length > MAX_FRAME_PACKETS) {
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
