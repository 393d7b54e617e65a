/** The single encoder of a composition: frames and samples go in at the same pace, and an MPEG transport stream comes out. */

import { type FfmpegPipe, pipeThrough, QUIET } from "./ffmpeg-pipe.ts";
import type { Encoding } from "./messages.ts";
import { CHANNELS, SAMPLE_RATE } from "./mixer.ts";

export type Encoder = {
  /** Whether the encoder is behind, so that further input would have to wait. */
  isBehind(): boolean;
  add(frame: Uint8Array | null, samples: Uint8Array | null): void;
  /** Resolves when everything is encoded: with null, or with the reason of a failure. */
  end(): Promise<string | null>;
  ended: Promise<string | null>;
};

export function encoderCommand(encoding: Encoding): string[] {
  const { width, height, framesPerSecond, videoKbps, audioKbps, audioCodec, hasVideo, hasAudio } = encoding;
  const { audioFrequency, keyframeSeconds, videoProfile } = encoding;
  const rate = `${videoKbps}k`;
  const video = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-video_size", `${width}x${height}`];
  const samples = ["-f", "s16le", "-ar", String(SAMPLE_RATE), "-ac", String(CHANNELS)];
  return [
    ...QUIET,
    ...["-protocol_whitelist", "pipe"],
    ...(hasVideo
      ? [
          ...video,
          "-framerate",
          String(framesPerSecond),
          "-color_range",
          "tv",
          "-thread_queue_size",
          "8",
          "-i",
          "pipe:0",
        ]
      : []),
    ...(hasAudio
      ? ["-protocol_whitelist", "pipe", ...samples, "-thread_queue_size", "64", "-i", `pipe:${hasVideo ? 3 : 0}`]
      : []),
    ...(hasVideo
      ? [
          ...["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-profile:v", videoProfile],
          ...["-pix_fmt", "yuv420p", "-b:v", rate, "-maxrate", rate, "-bufsize", rate, "-sc_threshold", "0"],
          ...["-g", String(Math.max(1, Math.round(keyframeSeconds * framesPerSecond)))],
        ]
      : []),
    ...(hasAudio
      ? ["-c:a", audioCodec === "aac" ? "aac" : "libopus", "-b:a", `${audioKbps}k`, "-ar", String(audioFrequency)]
      : []),
    ...["-muxdelay", "0", "-muxpreload", "0", "-mpegts_flags", "+resend_headers+pat_pmt_at_frames"],
    ...["-flush_packets", "1", "-f", "mpegts", "pipe:1"],
  ];
}

export function startEncoder(program: string, encoding: Encoding, onOutput: (bytes: Uint8Array) => void): Encoder {
  const { hasVideo, hasAudio, width, height } = encoding;
  const pipe: FfmpegPipe = pipeThrough(program, encoderCommand(encoding), hasVideo && hasAudio ? 2 : 1);
  const video = hasVideo ? pipe.inputs[0] : undefined;
  const audio = hasAudio ? pipe.inputs[hasVideo ? 1 : 0] : undefined;
  const frameLength = (width * height * 3) / 2;
  /** The limit of queued input: ten frames, or as much sound. */
  const mostWaiting = hasVideo ? 10 * frameLength : SAMPLE_RATE * CHANNELS;
  pipe.output.on("data", (bytes: Buffer) => onOutput(bytes));
  const first = video ?? audio;
  return {
    isBehind: () => (first?.writableLength ?? 0) > mostWaiting,
    add(frame, samples) {
      // A copy is needed, because the canvas is drawn on again before ffmpeg has read this frame.
      if (frame && video?.writable) video.write(Buffer.from(frame));
      if (samples && audio?.writable) audio.write(samples);
    },
    end() {
      for (const input of pipe.inputs) input.end();
      return pipe.ended;
    },
    ended: pipe.ended,
  };
}
