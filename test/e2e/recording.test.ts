// runs: alone
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeAll } from "../features/recordings/ffmpeg.ts";
import { beeps, flashes, prepareShow, publishShow } from "../features/recordings/flash-and-beep.ts";
import { type S3Credentials, s3TestServer } from "../features/storage/s3-server.ts";
import { joinRoom } from "./sdk/page-api.ts";
import { openStage, type SitePage, type Stage } from "./sdk/stage.ts";

declare global {
  interface Window {
    /** The positions of all playing files at one moment, in milliseconds of the recording. */
    positions(offsets: Record<string, number>): number[];
  }
}

const SECONDS = 8;

const credentials: S3Credentials = {
  accessKeyId: "AKTEST",
  secretAccessKey: "a/secret+with=signs",
  region: "eu-west-3",
  bucket: "films",
};
const s3 = s3TestServer(credentials);
let stage: Stage;
const folder = mkdtempSync(join(tmpdir(), "stoa-recorded-"));
beforeAll(async () => {
  stage = await openStage({
    STORAGE_S3_ENDPOINT: s3.endpoint,
    STORAGE_S3_BUCKET: credentials.bucket,
    STORAGE_S3_REGION: credentials.region,
    STORAGE_S3_ACCESS_KEY_ID: credentials.accessKeyId,
    STORAGE_S3_SECRET_ACCESS_KEY: credentials.secretAccessKey,
  });
}, 180_000);
afterAll(async () => {
  await stage?.close();
  await s3.stop();
  rmSync(folder, { recursive: true });
});

/** Publishes a video that flashes and a tone that beeps in the first fifth of every second of the page's clock. */
async function flashAndBeep(page: SitePage, codec: "VP8" | "H264"): Promise<void> {
  await page.evaluate(prepareShow, { width: 320, height: 180 });
  await page.evaluate(publishShow, { codec });
}

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

function apart(flashing: number[], sounding: number[]): number[] {
  return flashing.flatMap((flash) => {
    const nearest = sounding.toSorted((a, b) => Math.abs(a - flash) - Math.abs(b - flash))[0];
    return nearest === undefined || Math.abs(nearest - flash) > 400 ? [] : [Math.abs(nearest - flash)];
  });
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

for (const codec of ["VP8", "H264"] as const) {
  test(`audio and video of a ${codec} call are in sync in the recorded files, even across two participants`, async () => {
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
      const [video, audio] = ["video", "audio"].map((kind) =>
        files.find((one) => one.identity === identity && one.kind === kind),
      ) as [File, File];
      expect(video.codec).toBe(codec.toLowerCase());
      const shown = flashes(await download(recording.id, video), video.offsetMs);
      const heard = beeps(await download(recording.id, audio), audio.offsetMs);
      expect(shown.length).toBeGreaterThanOrEqual(3);
      expect(heard.length).toBeGreaterThanOrEqual(3);
      const distances = apart(shown, heard);
      console.log(codec, identity, "flash and beep apart by", distances.map(Math.round), "ms");
      expect(median(distances)).toBeLessThan(60);
    }
    for (const page of pages) await page.close();
  }, 180_000);
}

type Offsets = Record<string, number>;

/** Runs before the scripts of a replay page and collects the player's media elements, even detached ones. */
function keepMedia(): void {
  const create = document.createElement.bind(document);
  const media: HTMLMediaElement[] = [];
  document.createElement = ((name: string, options?: ElementCreationOptions) => {
    const made = create(name, options);
    if (made instanceof HTMLMediaElement) media.push(made);
    return made;
  }) as typeof document.createElement;
  window.positions = (offsets) =>
    media.flatMap((element) => {
      const [, offsetMs = 0] = Object.entries(offsets).find(([fileId]) => element.src.includes(fileId)) ?? [];
      return element.paused || element.seeking || element.readyState < 3
        ? []
        : [element.currentTime * 1_000 + offsetMs];
    });
}

/** Resolves when all tracks play in sync. */
async function inStep(viewer: SitePage, offsets: Offsets): Promise<void> {
  await viewer.waitForFunction(
    ({ offsets, apartMs }) => {
      const found = window.positions(offsets);
      return found.length === Object.keys(offsets).length && Math.max(...found) - Math.min(...found) < apartMs;
    },
    { offsets, apartMs: 80 },
    { polling: 20 },
  );
}

const seek = (viewer: SitePage, ms: number) =>
  viewer.locator("input.position").fill(String(Math.max(0, Math.round(ms / 100) * 100)));

/** The position of the tracks when the text appeared. */
const shownAt = (viewer: SitePage, text: string, offsets: Offsets) =>
  viewer.evaluate(
    ({ text, offsets }) =>
      new Promise<number>((resolve) => {
        const observer = new MutationObserver(() => {
          if (!document.querySelector(".chat")?.textContent?.includes(text)) return;
          observer.disconnect();
          resolve(Math.min(...window.positions(offsets)));
        });
        observer.observe(document.body, { childList: true, subtree: true, characterData: true });
      }),
    { text, offsets },
  );

test("a shared link plays all tracks in sync after each seek and shows the chat at its time", async () => {
  const { stoa } = stage;
  const room = await stoa.rooms.create({ name: "replayed" });
  const conversation = await stoa.conversations.create({ name: "replayed-chat", roomId: room.id });
  const recording = await stoa.recordings.start(room.id, { name: "Weekly" });
  const pages = [await stage.page(), await stage.page()] as const;
  for (const [i, page] of pages.entries()) {
    await joinRoom(page, await stage.rtc(room.id, `person-${i}`));
    await flashAndBeep(page, "VP8");
  }
  await Bun.sleep(4_000);
  const said = "Does everybody see me?";
  await stoa.messages.send(conversation.id, { text: said, senderId: "person-0" });
  await Bun.sleep(5_000);
  const { files } = await stoa.recordings.stop(recording.id);
  for (const page of pages) await page.close();
  expect(files).toHaveLength(4);
  const offsets = Object.fromEntries(files.map(({ id, offsetMs }) => [id, offsetMs]));
  /** A time that all four files cover. */
  const from = Math.max(...files.map(({ offsetMs }) => offsetMs)) + 200;
  const to = Math.min(...files.map(({ offsetMs, durationMs }) => offsetMs + durationMs)) - 1_500;
  const { url } = await stoa.recordings.mintViewToken(recording.id);
  // The files are in the bucket by then, and the page plays them from there.
  for (;;) {
    const there = [...s3.objects.keys()];
    if (files.every(({ id }) => there.some((key) => key.includes(id)))) break;
    await Bun.sleep(100);
  }

  const viewer = await stage.page();
  await viewer.addInitScript(keepMedia);
  await viewer.goto(url);
  await viewer.getByRole("button", { name: "Play" }).click();
  await viewer.getByText("person-1", { exact: true }).waitFor();
  for (const part of [0.6, 0.1, 0.9, 0.35, 0.7, 0.2, 0.5, 0, 0.8, 0.4]) {
    await seek(viewer, from + (to - from) * part);
    await inStep(viewer, offsets);
  }
  for (const { id } of files)
    expect(
      s3.requests.filter((line) => line.startsWith("GET ") && line.includes(id) && /20[06]$/.test(line)),
    ).not.toEqual([]);

  // The message appears at its time, never before, and not after on an idle machine.
  const [message] = (await stoa.recordings.timeline(recording.id)).filter(({ type }) => type === "message");
  const saidAt = message?.atMs ?? Number.NaN;
  const late: number[] = [];
  while (!late.some((ms) => ms < 250)) {
    await seek(viewer, Math.max(from, saidAt - 1_500));
    await viewer.getByText(said).waitFor({ state: "detached" });
    const shown = shownAt(viewer, said, offsets);
    await inStep(viewer, offsets);
    late.push((await shown) - saidAt);
    expect(late.at(-1)).toBeGreaterThan(-250);
  }
  console.log("words after their moment, in ms:", late.map(Math.round));
  expect(viewer.errors).toEqual([]);
  await viewer.goto(`${new URL(url).origin}/replay#token=nothing`);
  await viewer.reload();
  await viewer.getByText("Nothing to play").waitFor();
}, 180_000);
