import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compositionCommand } from "../../../src/features/recordings/composition/command.ts";
import type { RecordedFile } from "../../../src/protocol/media/recording.ts";
import { media } from "./ffmpeg.ts";
import { beeps, flashes } from "./flash-and-beep.ts";
import { opus, vp8 } from "./packetizers.ts";
import { OPUS, recordedTrack, STARTED_AT, VP8 } from "./recorded-track.ts";

const MOMENTS = [1_000, 2_000, 3_000];
const IS_ON = "gte(t,1)*lt(mod(t,1),0.2)";
const PACKET_MS = 20;

const directory = mkdtempSync(join(tmpdir(), "stoa-flashes-"));
afterAll(() => rmSync(directory, { recursive: true }));

/** A file that flashes or beeps at those moments, made by ffmpeg. */
function made(name: string, source: string, ...encoder: string[]): string {
  const path = join(directory, name);
  media("ffmpeg", "-f", "lavfi", "-i", source, ...encoder, path);
  return path;
}

const FLASHES = `color=black:size=160x90:rate=25:duration=4,drawbox=color=white:t=fill:enable='${IS_ON}'`;
const TONE = `aevalsrc='0.5*sin(2*PI*1000*t)*${IS_ON}':sample_rate=48000:duration=4`;
const REALTIME = ["-deadline", "realtime", "-auto-alt-ref", "0", "-lag-in-frames", "0", "-g", "25"];

const expectMoments = (found: readonly number[], wanted: readonly number[], withinMs = 2) => {
  expect(found).toHaveLength(wanted.length);
  for (const [i, ms] of wanted.entries()) expect(Math.abs((found[i] ?? 0) - ms)).toBeLessThan(withinMs);
};

test("the test's detector finds the flashes and beeps of a file at their times", () => {
  expectMoments(flashes(made("seen.webm", FLASHES, "-c:v", "libvpx", ...REALTIME), 0), MOMENTS);
  expectMoments(beeps(made("heard.opus", TONE, "-c:a", "libopus"), 0), MOMENTS);
  expectMoments(beeps(made("heard.wav", TONE), 500), [1_500, 2_500, 3_500]);
});

const at = (file: RecordedFile | undefined) => join(directory, file?.fileName ?? "");
const packets = () => opus(readFileSync(made(`${crypto.randomUUID()}.opus`, TONE, "-c:a", "libopus")));

test("[18] flashes and beeps of a browser, whose sender reports have the time of sending, stay together", async () => {
  const camera = recordedTrack(directory, "video");
  const microphone = recordedTrack(directory, "audio");
  const pictures = vp8(readFileSync(made("sent.ivf", FLASHES, "-c:v", "libvpx", ...REALTIME)));
  camera.recorder.tick(STARTED_AT);
  pictures.forEach((frame, i) => {
    camera.send(frame, VP8, STARTED_AT + i * 40 + 50);
    if (i === 0) camera.recorder.tick(STARTED_AT + 50);
    if (i % 25 === 24) camera.report(1_000 + i * 3_600, STARTED_AT + i * 40);
  });
  packets().forEach((frame, i) => {
    const sentAt = STARTED_AT + i * PACKET_MS + PACKET_MS;
    microphone.send(frame, OPUS, sentAt + 50);
    // The report comes seven milliseconds after the packet; the stream's time continues from there.
    if (i % 50 === 10) microphone.report(1_000 + i * 960 + 7 * 48, sentAt + 7);
  });
  await Promise.all([camera.recorder.end(), microphone.recorder.end()]);
  const [video] = camera.ended;
  const [sound] = microphone.ended;
  // Pictures begin with the keyframe after the recorder has seen the first, in the middle of a flash.
  expectMoments(flashes(at(video), video?.offsetMs ?? 0), MOMENTS.slice(1));
  expectMoments(beeps(at(sound), sound?.offsetMs ?? 0), MOMENTS);
});

test("[18] audio with capture times keeps its place, even when a recording begins in the middle of it", async () => {
  for (const known of [false, true]) {
    const microphone = recordedTrack(directory, "audio");
    // A report from before the first recorded packet.
    if (known) microphone.report(1_000 - 480, STARTED_AT - 10);
    packets().forEach((frame, i) => {
      const sentAt = STARTED_AT + i * PACKET_MS + PACKET_MS + 4;
      microphone.send(frame, OPUS, sentAt + 50);
      if (i % 50 === 10) microphone.report(1_000 + (sentAt + 3 - STARTED_AT) * 48, sentAt + 3);
      // The same one, on a clock that is known better, says nothing new.
      if (i % 50 === 12) microphone.report(1_000 + (sentAt - 37 - STARTED_AT) * 48, sentAt - 37);
    });
    await microphone.recorder.end();
    const [sound] = microphone.ended;
    expectMoments(beeps(at(sound), sound?.offsetMs ?? 0), MOMENTS);
  }
});

test("[18] a lost packet, or a sender report with a later time, does not shift the audio", async () => {
  const microphone = recordedTrack(directory, "audio");
  packets().forEach((frame, i) => {
    const sentAt = STARTED_AT + i * PACKET_MS + PACKET_MS;
    if (i !== 60) microphone.send(frame, OPUS, sentAt + 50);
    if (i % 50 === 10) microphone.report(1_000 + i * 960 + 7 * 48, sentAt + 7);
  });
  await microphone.recorder.end();
  const [sound] = microphone.ended;
  expectMoments(beeps(at(sound), sound?.offsetMs ?? 0), MOMENTS);
});

test("[18] a composition keeps flashes and beeps together, even where the audio begins before the recording", () => {
  const output = join(directory, "film.mp4");
  const ada = { identity: "ada", durationMs: 4_000 };
  const camera = { ...ada, kind: "video", codec: "vp8", source: "camera", offsetMs: -40 } as const;
  const microphone = { ...ada, kind: "audio", codec: "opus", source: "microphone" } as const;
  const files = [
    { ...camera, path: made("film.webm", FLASHES, "-c:v", "libvpx", ...REALTIME) },
    // In a WebM of ffmpeg's the sound begins after the 7 ms that an Opus decoder leaves out.
    { ...microphone, offsetMs: -47, path: made("sound.webm", TONE, "-c:a", "libopus") },
  ];
  const size = { width: 320, height: 180, durationMs: 4_000 };
  media("ffmpeg", ...compositionCommand({ layout: "grid", ...size, files, speakers: [], captions: null, output }));
  expectMoments(flashes(output, 0), [960, 1_960, 2_960]);
  // The limiter of the mix looks five milliseconds ahead.
  expectMoments(beeps(output, 0), [960, 1_960, 2_960], 10);
});
