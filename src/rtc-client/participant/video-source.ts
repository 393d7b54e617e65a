/** Pictures to publish: encoded frames as they come, an IVF file, or a Y4M file that an installed ffmpeg encodes. */
import { readFile } from "node:fs/promises";
import { runFfmpeg } from "./ffmpeg.ts";

export type VideoCodec = "VP8" | "H264";
export type VideoFrame = {
  data: Uint8Array;
  keyframe: boolean;
  /** From the first frame on. Frames are sent at their time. */
  timestampMs: number;
};
export type VideoSource = AsyncIterable<VideoFrame> | Iterable<VideoFrame>;

const IVF_HEADER_BYTES = 32;
const IVF_FRAME_HEADER_BYTES = 12;

export async function openVideo(source: VideoSource | string): Promise<VideoSource> {
  if (typeof source !== "string") return source;
  if (source.endsWith(".y4m")) return readIvf(await encode(source), source);
  return readIvf(await readFile(source), source);
}

function readIvf(bytes: Uint8Array, name = "the file"): VideoFrame[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const tag = (at: number) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < IVF_HEADER_BYTES || tag(0) !== "DKIF")
    throw new TypeError(`${name} is neither an IVF nor a Y4M file`);
  if (tag(8) !== "VP80") throw new TypeError(`${name} holds ${tag(8)}; only VP8 can be published from a file`);
  const ticksPerSecond = view.getUint32(16, true) / view.getUint32(20, true);
  const frames: VideoFrame[] = [];
  for (let at = view.getUint16(6, true); at + IVF_FRAME_HEADER_BYTES <= bytes.length; ) {
    const size = view.getUint32(at, true);
    const ticks = Number(view.getBigUint64(at + 4, true));
    const data = bytes.slice(at + IVF_FRAME_HEADER_BYTES, at + IVF_FRAME_HEADER_BYTES + size);
    // RFC 6386 §9.1: the first bit of a VP8 frame is 0 in a keyframe.
    frames.push({ data, keyframe: ((data[0] ?? 1) & 1) === 0, timestampMs: (ticks * 1000) / ticksPerSecond });
    at += IVF_FRAME_HEADER_BYTES + size;
  }
  return frames;
}

function encode(path: string): Promise<Uint8Array> {
  // A keyframe each second: nobody can be sent one when they come late, as the whole file is encoded before.
  const keyframes = "-force_key_frames expr:gte(t,n_forced)";
  const codec = `-c:v libvpx -deadline realtime -cpu-used 8 -b:v 1M ${keyframes} -f ivf pipe:1`;
  return runFfmpeg(["-i", path, ...codec.split(" ")], path);
}
