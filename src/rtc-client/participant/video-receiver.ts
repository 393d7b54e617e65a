import { Av1Frames } from "../../sfu/wire/frames/av1-frames.ts";
import { concatSpans, type Depacketizer, spanOf } from "../../sfu/wire/frames/frame.ts";
import { FrameAssembler } from "../../sfu/wire/frames/frame-assembler.ts";
import { H264Frames } from "../../sfu/wire/frames/h264-frames.ts";
import { Vp8Frames, Vp9Frames } from "../../sfu/wire/frames/vpx-frames.ts";
import { NackGenerator } from "../../sfu/wire/rtcp/nack-generator.ts";
import type { EncodedVideo } from "./participant-events.ts";

const FRAMES: Record<string, new () => Depacketizer> = {
  VP8: Vp8Frames,
  VP9: Vp9Frames,
  H264: H264Frames,
  AV1: Av1Frames,
};

const ASK_EVERY_MS = 20;

type VideoReceiverOutput = {
  frame(frame: EncodedVideo): void;
  needKeyframe(): void;
  /** Packets that have to be requested again. */
  lost(sequenceNumbers: number[]): void;
};

/**
 * Assembles the packets of one track into encoded frames, and requests lost packets until they arrive or are too late.
 */
export class VideoReceiver {
  readonly #assembler: FrameAssembler | null;
  readonly #nack = new NackGenerator();
  readonly #output: VideoReceiverOutput;
  #sequence: number | null = null;
  #asking: ReturnType<typeof setInterval> | null = null;

  constructor(codec: string, output: VideoReceiverOutput) {
    this.#output = output;
    const Frames = FRAMES[codec.toUpperCase()];
    this.#assembler =
      Frames === undefined
        ? null
        : new FrameAssembler(new Frames(), true, {
            frame: ({ spans, ...frame }) => output.frame({ codec, ...frame, data: concatSpans(spans) }),
            needKeyframe: output.needKeyframe,
          });
  }

  close(): void {
    if (this.#asking) clearInterval(this.#asking);
    this.#asking = null;
  }

  add(sequenceNumber: number, timestamp: number, marker: boolean, payload: Uint8Array): void {
    this.#sequence ??= sequenceNumber;
    const diff = (sequenceNumber - this.#sequence) & 0xffff;
    const extended = this.#sequence + (diff < 0x8000 ? diff : diff - 0x10000);
    this.#sequence = Math.max(this.#sequence, extended);
    const nowMs = performance.now();
    this.#nack.receive(sequenceNumber, nowMs);
    this.#assembler?.add(extended, timestamp, marker, spanOf(payload), nowMs);
    if (this.#nack.missing > 0) this.#asking ??= setInterval(() => this.#ask(performance.now()), ASK_EVERY_MS);
  }

  #ask(nowMs: number): void {
    const due = this.#nack.takeDue(nowMs);
    if (due.length > 0) this.#output.lost(due);
    this.#assembler?.tick(nowMs);
    if (this.#nack.missing === 0) this.close();
  }
}
