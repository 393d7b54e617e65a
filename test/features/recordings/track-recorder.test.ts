import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RecordedFeed, RecordedFile } from "../../../src/protocol/media/recording.ts";
import type { TrackRecorderHost } from "../../../src/sfu/tracks/track-recorder.ts";
import { encoded, probe } from "./ffmpeg.ts";
import { h264, opus, type SentFrame, vp8, vp9 } from "./packetizers.ts";
import { H264, OPUS, recordedTrack, STARTED_AT, VP8, VP9 } from "./recorded-track.ts";

const PICTURES = vp8(encoded("ivf", 4, "-c:v", "libvpx", "-b:v", "300k", "-g", "25", "-auto-alt-ref", "0"));
const OTHER_PICTURES = h264(
  encoded("h264", 2, "-c:v", "libx264", "-pix_fmt", "yuv420p", "-profile:v", "baseline", "-g", "25"),
);
const FAST = ["-deadline", "realtime", "-cpu-used", "8", "-auto-alt-ref", "0", "-lag-in-frames", "0"];
const VP9_PICTURES = vp9(
  encoded("ivf", 2, "-c:v", "libvpx-vp9", "-pix_fmt", "yuv420p", "-g", "25", "-keyint_min", "25", ...FAST),
);
const SOUND = opus(encoded("opus", 4, "-c:a", "libopus"));

let directory = mkdtempSync(join(tmpdir(), "stoa-recorder-"));
const directories = [directory];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "stoa-recorder-"));
  directories.push(directory);
});
afterAll(() => {
  for (const each of directories) rmSync(each, { recursive: true });
});

const recorded = (kind: "audio" | "video", rids: readonly string[] = [], more: Partial<TrackRecorderHost> = {}) =>
  recordedTrack(directory, kind, rids, more);

const read = (file: RecordedFile | undefined) => readFileSync(join(directory, file?.fileName ?? ""));

describe("a recorded track", () => {
  test("is emitted in parts for a live stream, and requests a keyframe in time", async () => {
    const camera = recorded("video");
    const [layer] = camera.publication.layers;
    if (!layer) throw new Error("no layer");
    const askedAt: number[] = [];
    let now = STARTED_AT;
    layer.requestKeyframe = () => {
      askedAt.push(now - STARTED_AT);
    };
    // One keyframe, followed only by frames that depend on it: a publisher that is not asked for keyframes.
    const pictures = [...OTHER_PICTURES.slice(0, 25), ...OTHER_PICTURES.slice(1, 25), ...OTHER_PICTURES.slice(1, 25)];
    const longer = [...pictures, ...OTHER_PICTURES.slice(1, 25), ...OTHER_PICTURES.slice(1, 25)];
    camera.send(OTHER_PICTURES[0] as SentFrame, H264, now);
    camera.recorder.tick(now);
    longer.forEach(({ payloads }, i) => {
      now = STARTED_AT + 40 + i * 40;
      camera.send({ payloads, timestamp: (i + 1) * 3_600 }, H264, now);
      camera.recorder.tick(now);
    });
    await camera.recorder.end();
    expect(camera.notStreamable).toEqual([]);
    const [first, ...rest] = camera.parts;
    expect(first).toMatchObject({ independent: true, beginsSegment: true, kind: "video" });
    expect(first?.head).not.toBeNull();
    expect(rest.every(({ head, beginsSegment }) => head === null && !beginsSegment)).toBe(true);
    // A keyframe is requested only for a segment that should have ended.
    expect(askedAt.some((at) => at > 900)).toBe(true);
    expect(askedAt.filter((at) => at > 100 && at < 900)).toEqual([]);
  });

  test("is the same whether packets arrive one by one or in batches, which recording does not prevent", async () => {
    const [singly, together] = [recorded("video"), recorded("video")];
    for (const camera of [singly, together]) {
      camera.send(PICTURES[0] as SentFrame, VP8, STARTED_AT);
      camera.recorder.tick(STARTED_AT);
    }
    PICTURES.slice(1).forEach((frame, i) => {
      singly.send(frame, VP8, STARTED_AT + 40 + i * 40);
      together.sendRun(frame, VP8, STARTED_AT + 40 + i * 40);
    });
    await singly.recorder.end();
    const bytes = read(singly.ended[0]);
    await together.recorder.end();
    expect(read(together.ended[0])).toEqual(bytes);
    expect(probe(bytes, "webm").frames).toBe(75);

    const microphone = recorded("audio");
    microphone.send(SOUND[0] as SentFrame, OPUS, STARTED_AT);
    const [layer] = microphone.publication.layers;
    expect(layer && microphone.publication.fastStreamTerms(layer)).toMatchObject({ payloadType: 111 });
    await microphone.recorder.end();
  });

  test("is reported as not streamable when HLS does not support its codec", async () => {
    for (const [codec, pictures] of [
      [VP8, PICTURES],
      [VP9, VP9_PICTURES],
    ] as const) {
      const camera = recorded("video");
      pictures.slice(0, 50).forEach((frame, i) => {
        camera.send(frame, codec, STARTED_AT + i * 40);
        camera.recorder.tick(STARTED_AT + i * 40);
      });
      await camera.recorder.end();
      expect([camera.notStreamable, camera.parts]).toEqual([[codec.codec.toLowerCase()], []]);
    }
  });

  test("is emitted frame by frame for transcoding when HLS does not support its codec", async () => {
    const feeds: RecordedFeed[] = [];
    const camera = recorded("video", [], { feed: (feed) => feeds.push(feed) });
    PICTURES.slice(0, 50).forEach((frame, i) => {
      camera.send(frame, VP8, STARTED_AT + i * 40);
      camera.recorder.tick(STARTED_AT + i * 40);
    });
    await camera.recorder.end();
    expect([camera.notStreamable, camera.parts]).toEqual([[], []]);
    // From the first keyframe after the recorder has looked at the track.
    expect(feeds).toHaveLength(25);
    expect(feeds[0]).toMatchObject({ identity: "ada", begins: true, keyframe: true, width: 320 });
    expect(feeds[1]).toMatchObject({ begins: false, keyframe: false });
    expect(probe(Buffer.concat(feeds.map(({ data }) => Buffer.from(data, "base64"))), "webm").frames).toBe(25);
  });

  test("keeps its capture time, however late it arrived", async () => {
    const camera = recorded("video");
    // The packet takes 300 ms to arrive, and reports come after a second.
    const madeAt = STARTED_AT + 5_000;
    PICTURES.forEach((frame, i) => {
      camera.send(frame, VP8, madeAt + i * 40 + 300);
      if (i === 0) camera.recorder.tick(madeAt + 300);
      if (i === 25) camera.report(1_000 + 90_000, madeAt + 1_000);
    });
    await camera.recorder.end();
    const [video] = camera.ended;
    // The first frame came before the recorder knew of the layer: it begins with the next keyframe, a second later.
    expect(video?.offsetMs).toBe(6_000);
    const found = probe(read(video), "webm");
    expect(found).toMatchObject({ codec: "vp8", frames: 75, width: 320, height: 240 });
    expect(Math.abs(found.durationSeconds * 1_000 - (video?.durationMs ?? 0))).toBeLessThan(50);
  });

  test("moves as a whole when the estimate of its publisher's clock improves", async () => {
    const camera = recorded("video");
    PICTURES.forEach((frame, i) => {
      camera.send(frame, VP8, STARTED_AT + i * 40);
      camera.recorder.tick(STARTED_AT + i * 40);
      // The clock that nothing lies on yet moves nothing; the one of the first report does.
      if (i === 27) camera.publication.clockMoved(-500);
      if (i === 30) camera.report(1_000 + 30 * 3_600, STARTED_AT + 30 * 40 + 90);
      if (i === 60) camera.publication.clockMoved(-80);
      if (i === 70) camera.report(1_000 + 70 * 3_600, STARTED_AT + 70 * 40 + 10);
    });
    await camera.recorder.end();
    expect(camera.ended[0]?.offsetMs).toBe(1_010);
    const found = probe(read(camera.ended[0]), "webm");
    expect(found.frames).toBe(75);
    expect(Math.abs(found.durationSeconds - 3)).toBeLessThan(0.05);
  });

  test("has a gap while it is muted", async () => {
    const { publication, recorder, send, ended } = recorded("video");
    const at = (i: number) => STARTED_AT + i * 40;
    PICTURES.forEach((frame, i) => {
      publication.muted = i >= 30 && i < 55;
      send(frame, VP8, at(i));
      recorder.tick(at(i));
    });
    await recorder.end();
    const found = probe(read(ended[0]), "webm");
    // From the second keyframe (1 s) to the mute, and from the keyframe after it (3 s) to the end.
    expect(found.frames).toBe(30 - 25 + (100 - 75));
    expect(Math.abs(found.durationSeconds - 3)).toBeLessThan(0.1);
  });

  test("requests a keyframe after unmuting, until one arrives", async () => {
    const { publication, recorder, send } = recorded("video");
    const at = (i: number) => STARTED_AT + i * 40;
    const asked: number[] = [];
    // Keyframes are the frames 25, 50 and 75.
    PICTURES.slice(0, 80).forEach((frame, i) => {
      publication.muted = i >= 26 && i < 28;
      send(frame, VP8, at(i));
      recorder.tick(at(i));
      if (publication.layers[0]?.takeKeyframeRequest(at(i))) asked.push(i);
    });
    await recorder.end();
    const afterMute = asked.filter((i) => i >= 28);
    expect(afterMute[0]).toBe(28);
    // Twice a second at the most, and not once it is there.
    expect(afterMute).toEqual([28, 41]);
  });

  test("the file of an audio track lasts until its end, although silence is not sent", async () => {
    for (const [silentMs, countedMs] of [
      [300, 300],
      [5_000, 0],
    ] as const) {
      const { recorder, send, ended } = recorded("audio");
      SOUND.slice(0, 50).forEach((frame, i) => {
        send(frame, OPUS, STARTED_AT + i * 20);
      });
      recorder.tick(STARTED_AT + 49 * 20 + silentMs);
      await recorder.end();
      expect(ended[0]?.durationMs).toBe(1_000 + countedMs);
      expect(probe(read(ended[0]), "webm").durationSeconds).toBeCloseTo(1 + countedMs / 1_000, 1);
    }
  });

  test("the file of an audio track lasts until its end, even when a packet before the silence is missing", async () => {
    const { recorder, send, lose, ended } = recorded("audio");
    SOUND.slice(0, 50).forEach((frame, i) => {
      if (i === 48) lose(frame, OPUS);
      else send(frame, OPUS, STARTED_AT + i * 20);
    });
    recorder.tick(STARTED_AT + 49 * 20 + 300);
    await recorder.end();
    expect(ended[0]?.durationMs).toBe(1_300);
  });

  test("continues in the same file with a better layer, from that layer's keyframe", async () => {
    const { recorder, send, ended, started } = recorded("video", ["q", "h"]);
    PICTURES.forEach((frame, i) => {
      const at = STARTED_AT + i * 40;
      send(frame, VP8, at, 0);
      if (i >= 40) send(frame, VP8, at, 1, 777_777);
      recorder.tick(at);
    });
    await recorder.end();
    expect(started).toHaveLength(1);
    const found = probe(read(ended[0]), "webm");
    expect(found.frames).toBe(75);
    expect(Math.abs(found.durationSeconds - 3)).toBeLessThan(0.1);
  });

  test("begins another file when the codec changes", async () => {
    const { recorder, send, ended } = recorded("video");
    const all = [...PICTURES.slice(0, 50), ...OTHER_PICTURES];
    all.forEach((frame, i) => {
      const timestamp = i * 3_600;
      send({ ...frame, timestamp }, i < 50 ? VP8 : H264, STARTED_AT + i * 40);
      recorder.tick(STARTED_AT + i * 40);
    });
    await recorder.end();
    ended.sort((a, b) => a.offsetMs - b.offsetMs);
    expect(ended.map(({ codec, mimeType }) => `${codec} ${mimeType}`)).toEqual(["vp8 video/webm", "h264 video/mp4"]);
    expect(probe(read(ended[0]), "webm").frames).toBe(25);
    expect(probe(read(ended[1]), "mp4")).toMatchObject({ codec: "h264", width: 320, height: 240 });
  });

  test("reports once why it cannot be written, and accepts packets as before", async () => {
    const { recorder, send, errors } = recorded("audio");
    rmSync(directory, { recursive: true });
    SOUND.forEach((frame, i) => {
      send(frame, OPUS, STARTED_AT + i * 20);
    });
    await recorder.end();
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain("ENOENT");
    directory = mkdtempSync(join(tmpdir(), "stoa-recorder-"));
    chmodSync(directory, 0o700);
    directories.splice(directories.length - 1, 1, directory);
  });
});
