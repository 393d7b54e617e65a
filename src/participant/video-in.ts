import { Av1Frames } from "../sfu/recording/av1-frames.ts";
import type { Depacketizer } from "../sfu/recording/frame.ts";
import { FrameAssembler } from "../sfu/recording/frame-assembler.ts";
import { H264Frames } from "../sfu/recording/h264-frames.ts";
import { Vp8Frames, Vp9Frames } from "../sfu/recording/vpx-frames.ts";
import type { EncodedVideo } from "./participant-events.ts";

const FRAMES: Record<string, new () => Depacketizer> = {
  VP8: Vp8Frames,
  VP9: Vp9Frames,
  H264: H264Frames,
  AV1: Av1Frames,
};

/** Packets of one track to whole encoded frames. */
export class VideoIn {
  readonly #assembler: FrameAssembler | null;
  #sequence: number | null = null;

  constructor(codec: string, onFrame: (frame: EncodedVideo) => void, onNeedKeyframe: () => void) {
    const Frames = FRAMES[codec.toUpperCase()];
    this.#assembler =
      Frames === undefined
        ? null
        : new FrameAssembler(new Frames(), true, {
            frame: (frame) => onFrame({ codec, ...frame }),
            needKeyframe: onNeedKeyframe,
          });
  }

  add(sequenceNumber: number, timestamp: number, marker: boolean, payload: Uint8Array): void {
    this.#sequence ??= sequenceNumber;
    const diff = (sequenceNumber - this.#sequence) & 0xffff;
    const extended = this.#sequence + (diff < 0x8000 ? diff : diff - 0x10000);
    this.#sequence = Math.max(this.#sequence, extended);
    this.#assembler?.add(extended, timestamp, marker, payload, performance.now());
  }
}
