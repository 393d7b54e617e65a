import { spawn } from "node:child_process";
import type { RecordedFeed, RecordedPart } from "../../../protocol/media/recording.ts";
import { describeHead, type Fragment, Mp4Fragments, moveFragment } from "./mp4-fragments.ts";

/** As the parts that are made of H.264 as it is sent: within the half second that players are told. */
const PART_MS = 450;
/** A player begins only once there is a whole segment: the first is of one second, those after it of two. */
const KEYFRAMES = "expr:gte(t,if(n_forced,2*n_forced-1,0))";
/** An encoder that is so far behind gets nothing more before the next picture that stands for itself. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
const KEPT_OF_STDERR = 2_000;

export type Transcoder = { add(feed: RecordedFeed): void; end(): void; cancel(): void };

type Host = {
  part(part: RecordedPart): void;
  /** Nothing more comes of it; with a reason when that is a failure. */
  ended(error: Error | null): void;
};

/** From a track of another codec, one picture after the other, to H.264 as it goes. */
export const transcodeCommand: readonly string[] = [
  ...["-hide_banner", "-loglevel", "error", "-probesize", "32", "-analyzeduration", "0"],
  ...["-protocol_whitelist", "pipe", "-f", "matroska", "-i", "pipe:0"],
  ...["-an", "-fps_mode", "passthrough", "-enc_time_base", "1:90000"],
  ...["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-profile:v", "main", "-pix_fmt", "yuv420p"],
  ...["-crf", "24", "-g", "600", "-force_key_frames", KEYFRAMES],
  ...["-video_track_timescale", "90000", "-movflags", "empty_moov+default_base_moof+frag_every_frame"],
  ...["-flush_packets", "1", "-f", "mp4", "pipe:1"],
];

/** One track that is encoded anew, by an ffmpeg of its own that yields to calls. */
export function startTranscoder(program: string, first: RecordedFeed, host: Host): Transcoder {
  const child = spawn("nice", ["-n", "10", program, ...transcodeCommand], { stdio: ["pipe", "pipe", "pipe"] });
  const { fileId, identity, trackId, source, width, height } = first;
  let complaint = "";
  let head: { bytes: Uint8Array; codecs: string; timescale: number } | null = null;
  /** From the encoder's clock, which begins at its first picture, to that of the recording. */
  let shift: number | null = null;
  let waiting: { fragments: Fragment[]; begins: boolean } = { fragments: [], begins: true };
  let skipping = false;
  let toldHead = false;

  const reader = new Mp4Fragments({
    head(bytes) {
      head = { bytes, ...describeHead(bytes) };
    },
    fragment(fragment) {
      if (!head) return;
      shift ??= Math.round((first.atMs * head.timescale) / 1_000) - fragment.time;
      const moved = { ...fragment, time: fragment.time + shift };
      moveFragment(moved.bytes, moved.time);
      const begun = waiting.fragments[0];
      const isDue = begun !== undefined && moved.time - begun.time >= (PART_MS * head.timescale) / 1_000;
      if (begun && (moved.keyframe || isDue)) flush(moved.time, moved.keyframe);
      waiting.fragments.push(moved);
    },
  });

  /** What waits is a part, up to that time. */
  function flush(until: number, endsSegment: boolean): void {
    const { fragments, begins } = waiting;
    const [begun] = fragments;
    if (!head || !begun) return;
    waiting = { fragments: [], begins: endsSegment };
    const toMs = 1_000 / head.timescale;
    host.part({
      ...{ fileId, identity, trackId, kind: "video", source, codecs: head.codecs, width, height },
      head: toldHead ? null : Buffer.from(head.bytes).toString("base64"),
      data: Buffer.concat(fragments.map(({ bytes }) => bytes)).toString("base64"),
      ...{ atMs: begun.time * toMs, durationMs: (until - begun.time) * toMs },
      ...{ independent: begun.keyframe, beginsSegment: begins, endsSegment },
    });
    toldHead = true;
  }

  child.stderr.on("data", (bytes: Buffer) => {
    complaint = (complaint + bytes.toString()).slice(-KEPT_OF_STDERR);
  });
  child.stdout.on("data", (bytes: Buffer) => {
    try {
      reader.add(bytes);
    } catch (error) {
      complaint = (error as Error).message;
      child.kill("SIGKILL");
    }
  });
  // It went away with something still on its way to it: its end says why.
  child.stdin.on("error", () => {});
  let failure: Error | null = null;
  child.on("error", (error) => {
    failure = error;
  });
  child.on("close", (code, signal) => {
    const last = waiting.fragments.at(-1);
    if (last && head) flush(last.time + head.timescale / 25, true);
    if (code !== 0 && signal === null) failure ??= new Error(complaint.trim() || `ended with ${code}`);
    if (signal !== null && complaint !== "") failure ??= new Error(complaint.trim());
    host.ended(failure);
  });

  const transcoder: Transcoder = {
    add({ data, keyframe }) {
      const isFull = child.stdin.writableLength > MAX_WAITING_BYTES;
      if (isFull || (skipping && !keyframe)) {
        skipping = true;
        return;
      }
      skipping = false;
      if (child.stdin.writable) child.stdin.write(Buffer.from(data, "base64"));
    },
    end: () => void child.stdin.end(),
    cancel: () => void child.kill("SIGKILL"),
  };
  transcoder.add(first);
  return transcoder;
}
