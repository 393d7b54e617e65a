import { spawn } from "node:child_process";
import { tailOf } from "../../../kernel/output-tail.ts";
import type { RecordedFeed, RecordedPart } from "../../../protocol/media/recording.ts";
import { BOUNDED_FRAMES } from "../composition/ffmpeg.ts";
import { describeHead, type Fragment, Mp4Fragments, moveFragment } from "./mp4-fragments.ts";

/** Shorter than the half second that the playlist announces as the maximum duration of a partial segment. */
const PART_MS = 450;
/** Segments have two seconds, but the first has one, because a player begins with a complete segment. */
const KEYFRAMES = "expr:gte(t,if(n_forced,2*n_forced-1,0))";
/** An encoder with this much queued input gets no more before the next keyframe. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;

export type Transcoder = { add(feed: RecordedFeed): void; end(): void; cancel(): void };

type Handlers = {
  part(part: RecordedPart): void;
  /** Called once at the end; `error` is null unless the transcoder failed. */
  ended(error: Error | null): void;
};

/** Transcodes a track to H.264 frame by frame. */
const transcodeCommand: readonly string[] = [
  ...["-hide_banner", "-loglevel", "error", "-probesize", "32", "-analyzeduration", "0"],
  ...["-protocol_whitelist", "pipe", ...BOUNDED_FRAMES, "-f", "matroska", "-i", "pipe:0"],
  ...["-an", "-fps_mode", "passthrough", "-enc_time_base", "1:90000"],
  ...["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-profile:v", "main", "-pix_fmt", "yuv420p"],
  ...["-crf", "24", "-g", "600", "-force_key_frames", KEYFRAMES],
  ...["-video_track_timescale", "90000", "-movflags", "empty_moov+default_base_moof+frag_every_frame"],
  ...["-flush_packets", "1", "-f", "mp4", "pipe:1"],
];

/** Transcodes one track in its own ffmpeg process, at a lower priority than calls. */
export function startTranscoder(program: string, first: RecordedFeed, handlers: Handlers): Transcoder {
  const child = spawn("nice", ["-n", "10", program, ...transcodeCommand], { stdio: ["pipe", "pipe", "pipe"] });
  const { fileId, identity, trackId, source, width, height } = first;
  const stderr = tailOf(child.stderr);
  let head: { bytes: Uint8Array; codecs: string; timescale: number } | null = null;
  /** The offset from the encoder's clock, which starts at its first frame, to the clock of the recording. */
  let shift: number | null = null;
  let pending: { fragments: Fragment[]; begins: boolean } = { fragments: [], begins: true };
  let skipping = false;
  let headSent = false;
  let failure: Error | null = null;

  const reader = new Mp4Fragments({
    head(bytes) {
      head = { bytes, ...describeHead(bytes) };
    },
    fragment(fragment) {
      if (!head) return;
      shift ??= Math.round((first.atMs * head.timescale) / 1_000) - fragment.time;
      const moved = { ...fragment, time: fragment.time + shift };
      moveFragment(moved.bytes, moved.time);
      const begun = pending.fragments[0];
      const isDue = begun !== undefined && moved.time - begun.time >= (PART_MS * head.timescale) / 1_000;
      if (begun && (moved.keyframe || isDue)) flush(moved.time, moved.keyframe);
      pending.fragments.push(moved);
    },
  });

  /** Emits the pending fragments as a partial segment that ends at that time. */
  function flush(until: number, endsSegment: boolean): void {
    const { fragments, begins } = pending;
    const [begun] = fragments;
    if (!head || !begun) return;
    pending = { fragments: [], begins: endsSegment };
    const toMs = 1_000 / head.timescale;
    handlers.part({
      fileId,
      identity,
      trackId,
      kind: "video",
      source,
      codecs: head.codecs,
      width,
      height,
      head: headSent ? null : Buffer.from(head.bytes).toString("base64"),
      data: Buffer.concat(fragments.map(({ bytes }) => bytes)).toString("base64"),
      atMs: begun.time * toMs,
      durationMs: (until - begun.time) * toMs,
      independent: begun.keyframe,
      beginsSegment: begins,
      endsSegment,
    });
    headSent = true;
  }

  child.stdout.on("data", (bytes: Buffer) => {
    try {
      reader.add(bytes);
    } catch (error) {
      failure = error as Error;
      child.kill("SIGKILL");
    }
  });
  // ffmpeg ended with unread input; the close event reports the reason.
  child.stdin.on("error", () => {});
  child.on("error", (error) => {
    failure = error;
  });
  child.on("close", (code, signal) => {
    const last = pending.fragments.at(-1);
    if (last && head) flush(last.time + head.timescale / 25, true);
    const reason = stderr();
    if (code !== 0 && signal === null) failure ??= new Error(reason || `ended with ${code}`);
    if (signal !== null && reason !== "") failure ??= new Error(reason);
    handlers.ended(failure);
  });

  const transcoder: Transcoder = {
    add({ data, keyframe }) {
      const isFull = child.stdin.writableLength > MAX_QUEUED_BYTES;
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
