/** Decodes one video track in its own ffmpeg, scaled to the size of its tile. */
import type { EncodedVideo } from "../../../rtc-client/participant/participant-events.ts";
import { BOUNDED_FRAMES } from "../../recordings/composition/ffmpeg.ts";
import { type Frame, frameBytes } from "./canvas.ts";
import { type FfmpegPipe, pipeThrough, QUIET } from "./ffmpeg-pipe.ts";
import { fitted, type Stage } from "./scene.ts";

const FOURCC: Record<string, string> = { VP8: "VP80", VP9: "VP90", AV1: "AV01", H264: "H264" };
/** A decoder with this much queued input gets no more until the next keyframe. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** The limit of frames between input and output. With more, the decoder has dropped some, and the times of the others are wrong. */
const MAX_FRAMES_INSIDE = 150;
/** More frames than the playout delay needs; older ones are not needed while nothing is drawn. */
const MAX_FRAMES = 90;
const MAX_SPARE = 4;
const MAX_SIDE = 8_192;

export type TimedFrame = Frame & { atMs: number };

type Running = {
  pipe: FfmpegPipe;
  codec: string;
  from: Stage;
  to: Stage;
  times: number[];
  frames: number;
};

export class VideoDecoder {
  readonly #ffmpeg: string;
  readonly #needKeyframe: () => void;
  readonly #spare: Uint8Array[] = [];
  #running: Running | null = null;
  /** The size of the tile. */
  #tile: Stage;
  /** Decoded frames by time; the first one is shown now. */
  #frames: TimedFrame[] = [];
  #skipping = true;
  #closed = false;

  constructor(ffmpeg: string, tile: Stage, needKeyframe: () => void) {
    this.#ffmpeg = ffmpeg;
    this.#tile = tile;
    this.#needKeyframe = needKeyframe;
  }

  /** Sets the tile whose size frames have from the next keyframe on. */
  resize({ width, height }: Stage): void {
    if (this.#tile.width === width && this.#tile.height === height) return;
    this.#tile = { width, height };
    if (this.#running) this.#needKeyframe();
  }

  add({ codec, data, keyframe, width, height }: EncodedVideo, atMs: number): void {
    const name = codec.toUpperCase();
    if (this.#closed || !FOURCC[name]) return;
    if (keyframe && isSize(width) && isSize(height)) this.#use(name, { width, height });
    const running = this.#running;
    if (!running || (this.#skipping && !keyframe)) return;
    const [input] = running.pipe.inputs;
    if (!input?.writable || input.writableLength > MAX_WAITING_BYTES || running.times.length > MAX_FRAMES_INSIDE) {
      this.#skipping = true;
      this.#end();
      this.#needKeyframe();
      return;
    }
    this.#skipping = false;
    running.times.push(atMs);
    input.write(ivfFrame(name === "H264" ? withStartCodes(data) : data, running.frames++));
  }

  /** The newest frame that is due, which stays until the next one is due. */
  frameAt(atMs: number): Frame | null {
    while (this.#frames.length > 1 && (this.#frames[1] as TimedFrame).atMs <= atMs) {
      this.#dropOldest();
    }
    const [first] = this.#frames;
    return first && first.atMs <= atMs ? first : null;
  }

  #dropOldest(): void {
    const old = this.#frames.shift();
    if (old && this.#spare.length < MAX_SPARE) this.#spare.push(old.data);
  }

  get hasFrames(): boolean {
    return this.#frames.length > 0;
  }

  /** Called when the track is muted, so that its last frame is no longer shown. */
  clear(): void {
    this.#frames = [];
  }

  close(): void {
    this.#closed = true;
    this.#end();
    this.#frames = [];
  }

  #use(codec: string, from: Stage): void {
    const to = fitted(from, { x: 0, y: 0, ...this.#tile });
    const { codec: before, from: had, to: shown } = this.#running ?? {};
    if (before === codec && isSame(had, from) && isSame(shown, to)) return;
    this.#end();
    const size = `${to.width}:${to.height}`;
    const pipe = pipeThrough(this.#ffmpeg, [
      ...QUIET,
      // Probing is off: with `nobuffer`, ffmpeg drops the frames that it has probed, and the frames after them get their times.
      ...["-probesize", "32", "-analyzeduration", "0", "-fpsprobesize", "0", "-flags", "low_delay", "-threads", "1"],
      ...["-protocol_whitelist", "pipe", ...BOUNDED_FRAMES, "-f", "ivf", "-i", "pipe:0", "-an"],
      ...["-vf", `scale=${size}:flags=bilinear:out_range=tv,format=yuv420p`, "-fps_mode", "passthrough"],
      ...["-f", "rawvideo", "-flush_packets", "1", "pipe:1"],
    ]);
    const running: Running = { pipe, codec, from, to, times: [], frames: 0 };
    pipe.inputs[0]?.write(ivfHeader(codec, from));
    this.#running = running;
    this.#read(running);
  }

  /** The old ffmpeg still decodes what it has, and its frames come before those of the next one. */
  #end(): void {
    this.#running?.pipe.inputs[0]?.end();
    this.#running = null;
  }

  #read({ pipe, to, times }: Running): void {
    const bytes = frameBytes(to.width, to.height);
    let filling = this.#buffer(bytes);
    let filled = 0;
    pipe.output.on("data", (chunk: Buffer) => {
      for (let at = 0; at < chunk.length; ) {
        const length = Math.min(chunk.length - at, bytes - filled);
        filling.set(chunk.subarray(at, at + length), filled);
        filled += length;
        at += length;
        if (filled < bytes) continue;
        const atMs = times.shift();
        if (atMs !== undefined && !this.#closed) this.#frames.push({ ...to, data: filling, atMs });
        if (this.#frames.length > MAX_FRAMES) this.#dropOldest();
        filling = this.#buffer(bytes);
        filled = 0;
      }
    });
  }

  #buffer(bytes: number): Uint8Array {
    const spare = this.#spare.pop();
    return spare?.length === bytes ? spare : new Uint8Array(bytes);
  }
}

const isSize = (value: number): boolean => value > 0 && value <= MAX_SIDE;
const isSame = (a: Stage | undefined, b: Stage): boolean => a?.width === b.width && a.height === b.height;

function ivfHeader(codec: string, { width, height }: Stage): Uint8Array {
  const header = Buffer.alloc(32);
  header.write("DKIF", 0, "latin1");
  header.writeUInt16LE(32, 6);
  header.write(FOURCC[codec] ?? "", 8, "latin1");
  header.writeUInt16LE(width, 12);
  header.writeUInt16LE(height, 14);
  header.writeUInt32LE(30, 16);
  header.writeUInt32LE(1, 20);
  return header;
}

function ivfFrame(data: Uint8Array, number: number): Uint8Array {
  const frame = Buffer.alloc(12 + data.length);
  frame.writeUInt32LE(data.length, 0);
  frame.writeBigUInt64LE(BigInt(number), 4);
  frame.set(data, 12);
  return frame;
}

/** H.264 as a byte stream: each length is replaced by a start code. */
function withStartCodes(data: Uint8Array): Uint8Array {
  const out = Buffer.from(data);
  for (let at = 0; at + 4 <= out.length; ) {
    const length = out.readUInt32BE(at);
    out.writeUInt32BE(1, at);
    at += 4 + length;
  }
  return out;
}
