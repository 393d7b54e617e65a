// suite: all
// needs: ffmpeg
import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TimedFrame, VideoDecoder } from "../../../src/features/egress/compositor/decoder.ts";
import { findFfmpeg } from "../../../src/features/recordings/composition/ffmpeg.ts";
import { openVideo } from "../../../src/rtc-client/participant/video-source.ts";
import { until } from "../../nodes/remote/until.ts";
import { media } from "../recordings/ffmpeg.ts";

const SIZE = { width: 320, height: 180 };
const BRIGHT_FROM = 40;

test("each decoded frame keeps the time of its encoded frame, from the first one on", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-decoder-"));
  const path = join(folder, "video.ivf");
  const box = `drawbox=color=white:t=fill:enable=gte(n\\,${BRIGHT_FROM})`;
  const source = `color=black:s=${SIZE.width}x${SIZE.height}:r=30:d=2,${box}`;
  media("ffmpeg", "-f", "lavfi", "-i", source, ..."-c:v libvpx -deadline realtime -g 30 -f ivf".split(" "), path);
  const decoder = new VideoDecoder(findFfmpeg() ?? "ffmpeg", SIZE, () => {});
  try {
    for await (const { data, keyframe, timestampMs } of await openVideo(path)) {
      const size = keyframe ? SIZE : { width: 0, height: 0 };
      decoder.add({ codec: "VP8", data, keyframe, ...size, timestamp: 0 }, 1_000 + timestampMs);
    }
    // The decoder keeps the newest frames until more come.
    for (let number = 0; number < 55; number++) {
      const atMs = 1_000 + (number * 1_000) / 30;
      const frame = await until(() => {
        const due = decoder.frameAt(atMs + 1) as TimedFrame | null;
        return due !== null && due.atMs > atMs - 1 && due;
      });
      expect([number, (frame.data[0] ?? 0) > 128]).toEqual([number, number >= BRIGHT_FROM]);
    }
  } finally {
    decoder.close();
    rmSync(folder, { recursive: true, force: true });
  }
}, 30_000);
