import { describe, expect, test } from "bun:test";
import type { MediaFile } from "../../../src/sfu/recording/media-file.ts";
import { Mp4File } from "../../../src/sfu/recording/mp4-file.ts";
import { WebmFile } from "../../../src/sfu/recording/webm-file.ts";
import { Av1Frames } from "../../../src/sfu/wire/frames/av1-frames.ts";
import { concatSpans, type Depacketizer, type EncodedFrame, spanOf } from "../../../src/sfu/wire/frames/frame.ts";
import { FrameAssembler } from "../../../src/sfu/wire/frames/frame-assembler.ts";
import { H264Frames } from "../../../src/sfu/wire/frames/h264-frames.ts";
import { OpusFrames, opusDurationMs } from "../../../src/sfu/wire/frames/opus-frames.ts";
import { Vp8Frames, Vp9Frames } from "../../../src/sfu/wire/frames/vpx-frames.ts";
import { encoded, probe } from "./ffmpeg.ts";
import { av1, h264, opus, type SentFrame, vp8, vp9 } from "./packetizers.ts";

const SECONDS = 4;

type Kind = {
  ending: "webm" | "mp4";
  codec: string;
  clockRate: number;
  source(): SentFrame[];
  frames(): Depacketizer;
  file(frames: Depacketizer): MediaFile;
};

const SIZE = { width: 320, height: 240 };
const video = (ending: string, ...encoder: string[]) =>
  encoded(ending, SECONDS, "-g", "25", "-pix_fmt", "yuv420p", ...encoder);
const KINDS: Record<string, Kind> = {
  vp8: {
    ending: "webm",
    codec: "vp8",
    clockRate: 90_000,
    source: () => vp8(video("ivf", "-c:v", "libvpx", "-b:v", "1M", "-deadline", "realtime", "-auto-alt-ref", "0")),
    frames: () => new Vp8Frames(),
    file: () => new WebmFile({ codec: "vp8", ...SIZE }),
  },
  vp9: {
    ending: "webm",
    codec: "vp9",
    clockRate: 90_000,
    source: () =>
      vp9(
        video(
          "ivf",
          "-c:v",
          "libvpx-vp9",
          "-b:v",
          "1M",
          "-deadline",
          "realtime",
          "-auto-alt-ref",
          "0",
          "-lag-in-frames",
          "0",
          "-keyint_min",
          "25",
        ),
      ),
    frames: () => new Vp9Frames(),
    file: () => new WebmFile({ codec: "vp9", ...SIZE }),
  },
  av1: {
    ending: "webm",
    codec: "av1",
    clockRate: 90_000,
    source: () =>
      av1(
        video("ivf", "-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-b:v", "500k", "-keyint_min", "25"),
      ),
    frames: () => new Av1Frames(),
    file: (frames) => new WebmFile({ codec: "av1", ...SIZE, configuration: (frames as Av1Frames).configuration() }),
  },
  h264: {
    ending: "mp4",
    codec: "h264",
    clockRate: 90_000,
    source: () =>
      h264(
        video(
          "h264",
          "-c:v",
          "libx264",
          "-profile:v",
          "baseline",
          "-tune",
          "zerolatency",
          "-x264-params",
          "keyint=25:sliced-threads=0:slices=1",
        ),
      ),
    frames: () => new H264Frames(),
    file: (frames) =>
      new Mp4File({ codec: "h264", ...SIZE, sps: (frames as H264Frames).sps, pps: (frames as H264Frames).pps }),
  },
  opus: {
    ending: "webm",
    codec: "opus",
    clockRate: 48_000,
    source: () => opus(encoded("opus", SECONDS, "-c:a", "libopus")),
    frames: () => new OpusFrames(),
    file: () => new WebmFile({ codec: "opus", channels: 2 }),
  },
};

type Packet = { extended: number; timestamp: number; marker: boolean; payload: Uint8Array };

function packetsOf(frames: readonly SentFrame[]): Packet[] {
  let extended = 65_000;
  return frames.flatMap(({ timestamp, payloads }) =>
    payloads.map((payload, i) => ({ extended: extended++, timestamp, marker: i === payloads.length - 1, payload })),
  );
}

/** Hands the packets to an assembler and writes what comes out; `arrivals` may leave out, repeat and reorder. */
function record(kind: Kind, arrivals: readonly Packet[]) {
  const frames = kind.frames();
  const isVideo = kind.codec !== "opus";
  const out: Uint8Array[] = [];
  const asked = { keyframes: 0 };
  let file: MediaFile | null = null;
  let written = 0;
  const write = ({ spans, timestamp, keyframe }: EncodedFrame) => {
    if (!file) {
      file = kind.file(frames);
      out.push(file.begin());
    }
    written++;
    const durationMs = isVideo ? 40 : opusDurationMs(spans);
    out.push(concatSpans(file.add(spans, (timestamp * 1_000) / kind.clockRate, durationMs, keyframe)));
  };
  const assembler = new FrameAssembler(frames, isVideo, { frame: write, needKeyframe: () => asked.keyframes++ });
  let nowMs = 1_000_000;
  for (const { extended, timestamp, marker, payload } of arrivals) {
    nowMs += 2;
    assembler.add(extended, timestamp, marker, spanOf(payload), nowMs);
  }
  const cut = Buffer.concat(out);
  assembler.end();
  const { tail, patches } = (file as unknown as MediaFile).finish();
  const whole = Buffer.concat([...out, tail]);
  for (const { position, bytes } of patches) whole.set(bytes, position);
  return { whole, cut, written, asked };
}

/** Encoding takes longer than everything else. */
const sources = new Map(Object.values(KINDS).map((kind) => [kind, kind.source()]));

for (const [name, kind] of Object.entries(KINDS)) {
  describe(name, () => {
    const sent = sources.get(kind) ?? [];
    const packets = packetsOf(sent);

    test("a decoder finds in the file what was sent", () => {
      const { whole, written } = record(kind, packets);
      expect(written).toBe(sent.length);
      const found = probe(whole, kind.ending);
      expect(found.codec).toBe(kind.codec);
      expect(found.frames).toBe(sent.length);
      expect(found.durationSeconds).toBeGreaterThan(SECONDS - 0.2);
      expect(found.durationSeconds).toBeLessThan(SECONDS + 0.2);
      if (name !== "opus") expect([found.width, found.height]).toEqual([320, 240]);
    });

    test("a file that was cut off plays as far as it was written", () => {
      const { cut } = record(kind, packets);
      const found = probe(cut, kind.ending);
      expect(found.frames).toBeGreaterThan(sent.length - 2 * 25 * (name === "opus" ? 2 : 1));
    });

    test("reordered and repeated packets result in the same file", () => {
      const shuffled = packets.flatMap((packet, i) =>
        i % 7 === 3 && i + 2 < packets.length
          ? []
          : i % 7 === 5
            ? [packet, packets[i - 2] as Packet, packet]
            : [packet],
      );
      expect(Buffer.compare(record(kind, shuffled).whole, record(kind, packets).whole)).toBe(0);
    });

    test("a lost packet costs only its frames, and causes no decoder error", () => {
      const lost = Math.floor(packets.length / 2) + 1;
      const { whole, written, asked } = record(kind, [...packets.slice(0, lost), ...packets.slice(lost + 1)]);
      expect(written).toBeLessThan(sent.length);
      expect(asked.keyframes > 0).toBe(name !== "opus");
      expect(probe(whole, kind.ending).frames).toBe(written);
    });
  });
}

test("a pause of five seconds is five seconds in the file", () => {
  for (const kind of [KINDS.vp8, KINDS.h264] as Kind[]) {
    const sent = sources.get(kind) ?? [];
    const paused = sent.map((frame, i) => (i < 50 ? frame : { ...frame, timestamp: frame.timestamp + 5 * 90_000 }));
    const found = probe(record(kind, packetsOf(paused)).whole, kind.ending);
    expect(found.frames).toBe(sent.length);
    expect(Math.abs(found.durationSeconds - SECONDS - 5)).toBeLessThan(0.2);
  }
});
