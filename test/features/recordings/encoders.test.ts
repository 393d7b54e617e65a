import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createHls } from "../../../src/features/recordings/hls/hls.ts";
import { recordingFolder } from "../../../src/features/recordings/recording-folder.ts";
import type { RecordedFeed, RecordedFile } from "../../../src/protocol/media/recording.ts";
import type { MediaEvent } from "../../../src/protocol/media-node.ts";
import { until } from "../../harness/rtc.ts";
import { testServer } from "../../harness/server.ts";

// Programs that encode, under a host who publishes again and again: each as slow to end as one that is far behind.

const MOST = 6;
const work = mkdtempSync(join(tmpdir(), "stoa-encoders-"));
const started = join(work, "started");
writeFileSync(join(work, "ffmpeg"), `#!/bin/sh\necho $$ >> ${started}\nexec sleep 1000\n`, { mode: 0o755 });
const PATH = process.env.PATH;
process.env.PATH = `${work}:${PATH}`;
const server = testServer({ HLS_TRANSCODE: true });
const hls = createHls(server.runtime, recordingFolder(server.runtime.config), MOST);
process.env.PATH = PATH;

const recordings: string[] = [];
afterAll(async () => {
  for (const id of recordings) await hls.remove(id);
  await until(() => running().length === 0);
  await server.close();
  rmSync(work, { recursive: true, force: true });
});

const pids = () => (existsSync(started) ? readFileSync(started, "utf8").trim().split("\n") : []);
/** One that was killed and not yet buried runs no more. */
const isRunning = (pid: string) => {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
};
const running = () => pids().filter(isRunning);

type Stream = { publish(fileId: string): void; unpublish(fileId: string): void; recordingId: string };

function begin(): Stream {
  const recordingId = crypto.randomUUID();
  const roomId = crypto.randomUUID();
  recordings.push(recordingId);
  hls.begin({ id: recordingId, roomId, startedAt: 0 });
  const about = { identity: "ada", trackId: "camera", source: "camera", width: 320, height: 240 } as const;
  return {
    recordingId,
    publish(fileId) {
      const feed: RecordedFeed = { ...about, fileId, atMs: 0, keyframe: true, begins: true, data: "AAAA" };
      hls.handleEvent({ type: "recordingFeed", roomId, recordingId, feed });
    },
    unpublish(fileId) {
      const file = { fileId } as RecordedFile;
      hls.handleEvent({ type: "recordingFileEnded", roomId, recordingId, file } as MediaEvent & {
        type: "recordingFileEnded";
      });
    },
  };
}

const isCrowdedOut = ({ recordingId }: Stream) =>
  hls.all().find((broadcast) => broadcast.recordingId === recordingId)?.lacksEncoder === true;

/** Retries until there is room, because the end of an ffmpeg is noticed only one or two event-loop ticks later. */
async function publishInTheEnd(stream: Stream): Promise<void> {
  stream.publish("track");
  while (isCrowdedOut(stream)) {
    await Bun.sleep(1);
    stream.publish("again");
  }
}

test("[18] at most two encoders run for a host that restarts its track often", async () => {
  const stream = begin();
  for (let n = 0; n < 30; n++) {
    stream.publish(`track-${n}`);
    stream.unpublish(`track-${n}`);
    expect(running().length).toBeLessThanOrEqual(4);
    // Encoders that were told to end have ended.
    await until(() => running().length <= 2);
    await Bun.sleep(1);
  }
  await until(() => running().length <= 2 && pids().length >= 2);
  expect(running().length).toBeLessThanOrEqual(2);
  await hls.remove(stream.recordingId);
  await until(() => running().length === 0);
}, 60_000);

test("[18] the number of encoders is limited over all streams, and others are refused until one ends", async () => {
  const before = pids().length;
  const streams = Array.from({ length: MOST }, begin);
  for (const stream of streams) await publishInTheEnd(stream);
  await until(() => running().length === MOST);
  const late = begin();
  late.publish("track");
  expect(isCrowdedOut(late)).toBe(true);
  expect(pids().length).toBe(before + MOST);
  const [first] = streams;
  if (first) await hls.remove(first.recordingId);
  await until(() => running().length === MOST - 1);
  await publishInTheEnd(late);
  await until(() => running().length === MOST);
}, 60_000);
