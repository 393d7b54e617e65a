import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeAll, media } from "../recordings/ffmpeg.ts";
import { joinRoom } from "./sdk/page-api.ts";
import { openStage, type SitePage, type Stage } from "./sdk/stage.ts";

const SECONDS = 8;

let stage: Stage;
const folder = mkdtempSync(join(tmpdir(), "stoa-recorded-"));
beforeAll(async () => {
  stage = await openStage();
}, 180_000);
afterAll(async () => {
  await stage?.close();
  rmSync(folder, { recursive: true });
});

/** Publishes a picture that flashes and a tone that sounds in the first tenth of every second of the page's own clock. */
const flashAndBeep = (page: SitePage, codec: "VP8" | "H264") =>
  page.evaluate(async (codec) => {
    const context = new AudioContext();
    await context.resume();
    const destination = context.createMediaStreamDestination();
    const gain = context.createGain();
    const tone = new OscillatorNode(context, { frequency: 1_000 });
    tone.connect(gain).connect(destination);
    gain.gain.value = 0;
    const begin = Math.ceil(context.currentTime) + 1;
    for (let second = 0; second < 60; second++) {
      gain.gain.setValueAtTime(0.5, begin + second);
      gain.gain.setValueAtTime(0, begin + second + 0.1);
    }
    tone.start();
    const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 180 });
    const draw = canvas.getContext("2d") as CanvasRenderingContext2D;
    const paint = () => {
      const phase = context.currentTime % 1;
      draw.fillStyle = context.currentTime >= begin && phase < 0.1 ? "white" : "black";
      draw.fillRect(0, 0, 320, 180);
      // Something always moves, or no frames are made.
      draw.fillStyle = "gray";
      draw.fillRect((context.currentTime * 50) % 320, 170, 10, 10);
      requestAnimationFrame(paint);
    };
    paint();
    const [picture] = canvas.captureStream(30).getVideoTracks();
    const [sound] = destination.stream.getAudioTracks();
    const { localParticipant } = window.room;
    await localParticipant.publish(picture as MediaStreamTrack, { source: "camera", codec, simulcast: false });
    await localParticipant.publish(sound as MediaStreamTrack, { source: "microphone" });
  }, codec);

type File = {
  id: string;
  kind: string;
  codec: string;
  mimeType: string;
  identity: string;
  offsetMs: number;
  durationMs: number;
};

async function download(recordingId: string, file: File): Promise<string> {
  const { url } = await stage.stoa.recordings.downloadUrl(recordingId, file.id);
  const path = join(folder, `${file.id}.${file.mimeType.split("/")[1]}`);
  writeFileSync(path, new Uint8Array(await (await fetch(url)).arrayBuffer()));
  decodeAll(path);
  return path;
}

/** Moments at which the picture becomes bright, in milliseconds of the recording. */
function flashes(path: string, offsetMs: number): number[] {
  const raw = Bun.spawnSync([
    "ffmpeg",
    "-v",
    "error",
    "-i",
    path,
    "-fps_mode",
    "passthrough",
    "-vf",
    "crop=100:60:10:10,scale=1:1,format=gray",
    "-f",
    "rawvideo",
    "-",
  ]).stdout;
  const times = media("ffprobe", "-select_streams", "v", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path);
  const at = times
    .split("\n")
    .filter(Boolean)
    .map((line) => Number.parseFloat(line) * 1_000);
  return at.filter((_, i) => (raw[i] ?? 0) > 128 && (raw[i - 1] ?? 255) <= 128).map((ms) => ms + offsetMs);
}

/** Moments at which the tone begins. */
function beeps(path: string, offsetMs: number): number[] {
  const { stdout } = Bun.spawnSync([
    "ffmpeg",
    "-v",
    "error",
    "-i",
    path,
    "-af",
    "aresample=async=1:min_hard_comp=0.01:first_pts=0",
    "-ac",
    "1",
    "-ar",
    "48000",
    "-f",
    "s16le",
    "-",
  ]);
  const samples = new Int16Array(stdout.buffer, stdout.byteOffset, stdout.length >> 1);
  const found: number[] = [];
  for (let at = 0, quietUntil = 0; at < samples.length; at++) {
    if (Math.abs(samples[at] as number) < 3_000) continue;
    if (at > quietUntil && at > 4_800) found.push((at / 48_000) * 1_000 + offsetMs);
    quietUntil = at + 24_000;
  }
  return found;
}

function apart(flashing: number[], sounding: number[]): number[] {
  return flashing.flatMap((flash) => {
    const nearest = sounding.toSorted((a, b) => Math.abs(a - flash) - Math.abs(b - flash))[0];
    return nearest === undefined || Math.abs(nearest - flash) > 400 ? [] : [Math.abs(nearest - flash)];
  });
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

for (const codec of ["VP8", "H264"] as const) {
  test(`picture and sound of a ${codec} call lie together in the recorded files, and across two people`, async () => {
    const room = await stage.stoa.rooms.create({ name: `recorded-${codec}` });
    const pages = [await stage.page(), await stage.page()] as const;
    const recording = await stage.stoa.recordings.start(room.id, { name: codec });
    for (const [i, page] of pages.entries()) {
      await joinRoom(page, await stage.rtc(room.id, `person-${i}`));
      await flashAndBeep(page, codec);
      expect(await page.evaluate(() => window.room.recording)).toBe(true);
    }
    await Bun.sleep(SECONDS * 1_000);
    const stopped = await stage.stoa.recordings.stop(recording.id);
    expect(stopped).toMatchObject({ status: "READY", error: null });
    await pages[0].waitForFunction(() => !window.room.recording);
    const files = stopped.files as File[];
    expect(files.map(({ kind }) => kind).sort()).toEqual(["audio", "audio", "video", "video"]);
    for (const identity of ["person-0", "person-1"]) {
      const [picture, sound] = ["video", "audio"].map((kind) =>
        files.find((one) => one.identity === identity && one.kind === kind),
      ) as [File, File];
      expect(picture.codec).toBe(codec.toLowerCase());
      const shown = flashes(await download(recording.id, picture), picture.offsetMs);
      const heard = beeps(await download(recording.id, sound), sound.offsetMs);
      expect(shown.length).toBeGreaterThanOrEqual(3);
      expect(heard.length).toBeGreaterThanOrEqual(3);
      const distances = apart(shown, heard);
      console.log(codec, identity, "flash and beep apart by", distances.map(Math.round), "ms");
      expect(median(distances)).toBeLessThan(60);
    }
    for (const page of pages) await page.close();
  }, 180_000);
}

test("a shared link plays every track on one clock, seek after seek, and shows the chat as it was said", async () => {
  const { stoa } = stage;
  const room = await stoa.rooms.create({ name: "replayed" });
  const conversation = await stoa.conversations.create({ name: "replayed-chat", roomId: room.id });
  const recording = await stoa.recordings.start(room.id, { name: "Weekly" });
  const pages = [await stage.page(), await stage.page()] as const;
  for (const [i, page] of pages.entries()) {
    await joinRoom(page, await stage.rtc(room.id, `person-${i}`));
    await flashAndBeep(page, "VP8");
  }
  await Bun.sleep(3_000);
  await stoa.messages.send(conversation.id, { text: "Does everybody see me?", senderId: "person-0" });
  await Bun.sleep(5_000);
  const { files } = await stoa.recordings.stop(recording.id);
  for (const page of pages) await page.close();
  const offsets = Object.fromEntries(
    files.flatMap(({ kind, identity, offsetMs }) => (kind === "video" ? [[identity, offsetMs]] : [])),
  );
  const { url } = await stoa.recordings.mintViewToken(recording.id);

  const viewer = await stage.page();
  await viewer.goto(url);
  await viewer.getByRole("button", { name: "Play" }).click();
  await viewer.getByText("person-1", { exact: true }).waitFor();
  await viewer.getByText("Does everybody see me?").waitFor({ state: "attached" });
  await viewer.waitForFunction(() => document.querySelectorAll("video").length === 2);
  const duration = await viewer.locator("input.position").evaluate((input) => Number((input as HTMLInputElement).max));
  for (const part of [0.6, 0.35, 0.7, 0.5, 0.4]) {
    await viewer.locator("input.position").fill(String(Math.round((duration * part) / 100) * 100));
    // Both are where the clock is, to within 80 ms, and go on from there.
    await viewer.waitForFunction(
      (offsets) => {
        const moments = [...document.querySelectorAll(".person")].flatMap((person) => {
          const video = person.querySelector("video");
          const who = person.querySelector("footer span")?.textContent ?? "";
          return video && !video.paused && !video.seeking ? [video.currentTime * 1_000 + (offsets[who] ?? 0)] : [];
        });
        return moments.length === 2 && Math.max(...moments) - Math.min(...moments) < 80;
      },
      offsets,
      { polling: 50 },
    );
  }
  expect(viewer.errors).toEqual([]);
  await viewer.goto(`${new URL(url).origin}/replay#token=nothing`);
  await viewer.reload();
  await viewer.getByText("Nothing to play").waitFor();
}, 180_000);
