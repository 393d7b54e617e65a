/** One output of a composition: an ffmpeg that repacks the encoded stream. When it fails, the others continue. */

import { rename, rm } from "node:fs/promises";
import { createInterface } from "node:readline";
import { type FfmpegPipe, pipeThrough, QUIET } from "./ffmpeg-pipe.ts";
import type { OutputReport, OutputTarget, SegmentsTarget, StreamTarget } from "./messages.ts";
import { openRtmpRelay, type RtmpRelay } from "./rtmp-relay.ts";

/** Some seconds of video: a receiver that is further behind will not catch up. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024;
/** A receiver that stopped reading would otherwise keep the composition from ending. */
const END_WITHIN_MS = 10_000;
/** Both formats store AAC without the headers that a transport stream repeats with every frame. */
const WITHOUT_ADTS = ["-bsf:a", "aac_adtstoasc"];
const FRAGMENTED = "+frag_keyframe+empty_moov+default_base_moof";

type Command = { parameters: string[]; secrets: string[]; relay: RtmpRelay | null };

export class Output {
  readonly target: OutputTarget;
  readonly #ffmpeg: string;
  readonly #report: (report: OutputReport) => void;
  readonly #ended = Promise.withResolvers<void>();
  #pipe: FfmpegPipe | null = null;
  #waiting: Uint8Array[] = [];
  #isOver = false;
  #isActive = false;
  #failure: string | null = null;
  #bytes = 0;
  #durationMs = 0;

  constructor(ffmpeg: string, target: OutputTarget, report: (report: OutputReport) => void) {
    this.#ffmpeg = ffmpeg;
    this.target = target;
    this.#report = report;
    this.#run().catch((error: Error) => this.#finish(error.message));
  }

  add(bytes: Uint8Array): void {
    const [input] = this.#pipe?.inputs ?? [];
    if (this.#isOver) return;
    if (!input) this.#waiting.push(bytes);
    else if (input.writableLength > MAX_WAITING_BYTES) {
      this.#failure = "The receiver takes the stream too slowly.";
      this.#pipe?.child.kill("SIGKILL");
    } else if (input.writable) input.write(bytes);
  }

  /** Resolves when the output is complete, or has failed. */
  end(): Promise<void> {
    const pipe = this.#pipe;
    if (!this.#isOver && pipe) {
      pipe.inputs[0]?.end();
      const timer = setTimeout(() => pipe.child.kill("SIGKILL"), END_WITHIN_MS);
      void this.#ended.promise.then(() => clearTimeout(timer));
    }
    return this.#ended.promise;
  }

  async #run(): Promise<void> {
    const { parameters, secrets, relay } = await commandOf(this.target);
    const pipe = pipeThrough(this.#ffmpeg, [
      ...QUIET,
      ...["-progress", "pipe:1", "-stats_period", "1", "-fflags", "+genpts", "-probesize", "500000"],
      ...["-analyzeduration", "1500000", "-protocol_whitelist", "pipe", "-f", "mpegts", "-i", "pipe:0"],
      ...["-map", "0", "-c", "copy", ...parameters],
    ]);
    this.#pipe = pipe;
    createInterface({ input: pipe.output }).on("line", (line) => this.#progress(line));
    for (const bytes of this.#waiting.splice(0)) pipe.inputs[0]?.write(bytes);
    const error = await pipe.ended;
    relay?.close();
    const text = secrets.reduce((all, secret) => all.replaceAll(secret, "…"), error ?? "");
    this.#finish(this.#failure ?? (error === null ? null : text));
  }

  #progress(line: string): void {
    const [name = "", value = ""] = line.split("=");
    const number = Number(value);
    if (!Number.isFinite(number)) return;
    if (name === "total_size") this.#bytes = number;
    if (name === "out_time_us") this.#durationMs = Math.max(0, Math.round(number / 1_000));
    if (name !== "out_time_us" || this.#isActive || number <= 0) return;
    this.#isActive = true;
    this.#tell("active", null);
  }

  async #finish(error: string | null): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.target.kind === "file" && this.target.format === "mp4") await this.#makeSeekable(this.target.path);
    this.#tell(error === null ? "ended" : "failed", error);
    this.#ended.resolve();
  }

  /** While it is being written, the file has fragments, so that it plays after a crash. Afterwards it gets an index at its start. */
  async #makeSeekable(path: string): Promise<void> {
    const whole = `${path}.whole`;
    const input = ["-protocol_whitelist", "file,pipe", "-f", "mp4", "-i", path];
    const pipe = pipeThrough(this.#ffmpeg, [
      ...[...QUIET, "-y", ...input, "-map", "0", "-c", "copy"],
      ...["-movflags", "+faststart", "-f", "mp4", whole],
    ]);
    if ((await pipe.ended) === null) await rename(whole, path).catch(() => {});
    else await rm(whole, { force: true });
  }

  #tell(state: OutputReport["state"], error: string | null): void {
    this.#report({ id: this.target.id, state, error, bytes: this.#bytes, durationMs: this.#durationMs });
  }
}

async function commandOf(target: OutputTarget): Promise<Command> {
  switch (target.kind) {
    case "file":
      return plain(
        target.format === "mp4"
          ? [...WITHOUT_ADTS, "-movflags", FRAGMENTED, "-flush_packets", "1", "-f", "mp4", target.path]
          : ["-f", "ogg", "-flush_packets", "1", target.path],
      );
    case "segments":
      return plain(segments(target));
    case "stream":
      return stream(target);
  }
}

const plain = (parameters: string[]): Command => ({ parameters: ["-y", ...parameters], secrets: [], relay: null });

/** The live playlist lists only the newest segments. */
const LIVE_SEGMENTS = 5;

function segments({ playlist, livePlaylist, prefix, seconds }: SegmentsTarget): string[] {
  const escaped = `${prefix.replaceAll("%", "%%")}_%05d.ts`;
  const hls = ["-f", "hls", "-hls_time", String(seconds), "-hls_segment_filename", escaped];
  const whole = [...hls, "-hls_list_size", "0", "-hls_playlist_type", "event", "-hls_flags", "temp_file", playlist];
  if (livePlaylist === null) return whole;
  const live = [...hls, "-hls_list_size", String(LIVE_SEGMENTS), "-hls_flags", "temp_file", livePlaylist];
  return [...whole, "-map", "0", "-c", "copy", ...live];
}

async function stream({ url: text, address }: StreamTarget): Promise<Command> {
  const url = new URL(text);
  if (url.protocol === "srt:") {
    const host = address.includes(":") ? `[${address}]` : address;
    const to = `srt://${host}:${url.port}${url.search}`;
    return {
      parameters: ["-f", "mpegts", "-protocol_whitelist", "srt,udp", to],
      secrets: [to, url.search],
      relay: null,
    };
  }
  const path = text.slice(text.indexOf("/", text.indexOf("//") + 2) + 1);
  const end = path.split("?")[0]?.lastIndexOf("/") ?? -1;
  const [app, key] = end < 0 ? [path, ""] : [path.slice(0, end), path.slice(end + 1)];
  const relay = await openRtmpRelay(url, address);
  const local = `rtmp://127.0.0.1:${relay.port}`;
  return {
    parameters: [
      ...[...WITHOUT_ADTS, "-rtmp_app", app, "-rtmp_playpath", key, "-rtmp_live", "live"],
      ...["-rtmp_tcurl", `${url.protocol}//${url.host}/${app}`, "-flvflags", "no_duration_filesize"],
      ...["-protocol_whitelist", "rtmp,tcp", "-f", "flv", `${local}/${app}`],
    ],
    secrets: [`${local}/${app}`, ...(key === "" ? [] : [key])],
    relay,
  };
}
