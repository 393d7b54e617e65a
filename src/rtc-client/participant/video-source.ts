/** Video to publish: encoded frames, an IVF file, or a Y4M file that an installed ffmpeg encodes. */
import { readFile } from "node:fs/promises";
import { runFfmpeg } from "./ffmpeg.ts";

export type VideoCodec = "VP8" | "H264";
export type VideoFrame = {
  data: Uint8Array;
  keyframe: boolean;
  /** The time since the first frame, at which the frame is sent. */
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
  // The file is encoded in advance, so new subscribers depend on a keyframe every second.
  const keyframes = "-force_key_frames expr:gte(t,n_forced)";
  const codec = `-c:v libvpx -deadline realtime -cpu-used 8 -b:v 1M ${keyframes} -f ivf pipe:1`;
  return runFfmpeg(["-i", path, ...codec.split(" ")], path);
}

/** Colour bars of 320 × 180 as one VP8 keyframe. */
const KEYFRAME = [
  "8CYAnQEqQAG0AAAHCIWFiIWEiAICAyJVxfiX4PdLvSvgH43+BH62/1vfA/sl8gqoH8B/kv4Zf0ngAf//6f9ti/gP9F/gPAA/wHrAf4D/CvX/6v",
  "/Tc/Ev9H+GZ6f91/pA/1X/AKrPpDqu+i9kw7s3eExeHXEBrNiLpjpC+qo9HVPgrNbZdeznuDNnLhpmDeB/9tPkiaik2wdaRAYABve4Y8GDKp/9",
  "tPkiaik2wx4EG8D/7afJE1FJtg60iAwADe9wx4MGH/6b+WphUQb3cSjxC/gR96AEq1b5gVExVrDZsbtzhpE15u72+4L8l1uSkyuCMLdUZbCrjX",
  "HcfBddl9qkNTWs0vpLgi+wiHMjbWqfEMjXHX6ugdJ5T/4diHcTav46nQBtadK30vPzXxLoErliEZQdjhglq0997hjwI7ZTlPgA/v3xS+TaVg5N",
  "mWN4MshGWN4OwI5MTHNKeCIa+DGPHuzArq0+nb3y/wTlF8IeNICZlrPHXOkNbmJNYgcKxNYgcKELS/zzhSeB1ZWGeAwjZX7uUOrNhda0C+wIS/",
  "twUwPtHZIPmKnD29IV1+ZULdqzXtvHhoCfam9+mc79QAKZRxl9UH4/bvN5e93WGBkST2SjU0D7eKIpIIob7AyyO6bGv7l0PHXLiFnIq+3Z+E//",
  "x8aPnXRsBRdLTSGp2yDWX9F3JH//z0Fa/pKqg3XrPVPy6jk0N+3kXhFkS4H90VqnMhHsHDxztGKdB8jTIuPwTn5mMJ9NN//QmF5J8gNH6TGZcL",
  "mCsSlxJPa4x7oGZB8sDI4ywbTOfiQgLvrIlB4+sx/VczXqOmd0n38Q0rNFVm6UIHIZ/YwVLSDfDJmD+X4H5VoBRIRuN0yQAAt3kg5IHO8UyJZW",
  "ay0UljoAAA==",
].join("");

/** Colour bars at ten frames a second, endless. */
export async function* bars(): AsyncGenerator<VideoFrame, void, void> {
  const data = Uint8Array.from(Buffer.from(KEYFRAME, "base64"));
  for (let timestampMs = 0; ; timestampMs += 100) yield { data, keyframe: true, timestampMs };
}
