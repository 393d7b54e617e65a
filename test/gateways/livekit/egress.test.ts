// needs: ffmpeg
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { EgressInfo } from "@livekit/protocol";
import { BOUNDED_FRAMES, findFfmpeg } from "../../../src/features/recordings/composition/ffmpeg.ts";
import type { VideoFrame } from "../../../src/rtc-client/participant/participant.ts";
import { media } from "../../features/recordings/ffmpeg.ts";
import { s3TestServer } from "../../features/storage/s3-server.ts";
import { colour, coloursAt, loudnessOf, sender } from "./harness/composed-room.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

const CREDENTIALS = {
  accessKeyId: "test-key-id",
  secretAccessKey: "test-secret-key",
  region: "us-east-1",
  bucket: "films",
};
/** A size so small that a busy machine composes it in time. */
const SMALL = { width: 320, height: 180, framerate: 10 };

const HALVES = [
  [0.25, 0.5],
  [0.75, 0.5],
] as const;

// biome-ignore lint/suspicious/noExplicitAny: the classes of a stock package
type Anything = any;

let stage: Stage;
let sdk: Record<string, Anything>;
let egress: Anything;
let red: VideoFrame[];
let lime: VideoFrame[];
const bucket = s3TestServer(CREDENTIALS);
const folder = mkdtempSync(join(tmpdir(), "stoa-egress-"));

beforeAll(async () => {
  stage = await openStage({ EGRESS_DIR: folder, EGRESS_MAX_RUNNING: 2 });
  sdk = await import(join(stage.packages, "livekit-server-sdk"));
  egress = new sdk.EgressClient(stage.server.url, stage.apiKey, stage.apiSecret);
  [red, lime] = await Promise.all([colour("red"), colour("lime")]);
}, 180_000);
afterAll(async () => {
  await stage.close();
  await bucket.stop();
  rmSync(folder, { recursive: true });
});

const small = () => ({ encodingOptions: new sdk.EncodingOptions(SMALL) });
const file = (filepath: string, output = {}) => new sdk.EncodedFileOutput({ filepath, output });
const s3 = (endpoint = bucket.endpoint) => ({
  case: "s3",
  value: new sdk.S3Upload({
    accessKey: CREDENTIALS.accessKeyId,
    secret: CREDENTIALS.secretAccessKey,
    region: CREDENTIALS.region,
    bucket: CREDENTIALS.bucket,
    endpoint,
    forcePathStyle: true,
  }),
});

async function until(egressId: string, done: (info: EgressInfo) => boolean): Promise<EgressInfo> {
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const [info] = await egress.listEgress({ egressId });
    if (done(info)) return info;
    if (Date.now() > deadline) throw new Error(`egress stays ${info.toJsonString()}`);
    await Bun.sleep(100);
  }
}
const active = (id: string) => until(id, ({ status }) => status !== 0);
const ended = (id: string) => until(id, ({ endedAt }) => endedAt > 0n);
/** The first file is being written. */
const written = (id: string) => until(id, ({ fileResults: [first] }) => (first?.startedAt ?? 0n) > 0n);
const codeOf = (error: Anything): string => error.code;

/** The last second of a file that is whole. */
const lastSecond = (made: EgressInfo["fileResults"][number] | undefined) =>
  Math.floor(Number(made?.duration) / 1e9) - 1;

/** The second until then in which these tones are loudest together: in others, a busy machine may have sent no sound. */
function loudestSecond(path: string, last: number, ...hertz: number[]): number {
  const seconds = Array.from({ length: last + 1 }, (_, second) => {
    return { second, loudness: Math.min(...hertz.map((one) => loudnessOf(path, second, one))) };
  });
  return seconds.toSorted((a, b) => b.loudness - a.loudness)[0]?.second ?? 0;
}

test("a room is composed into a file with the video and the sound of all, including those who come later", async () => {
  await stage.rooms.createRoom({ name: "four eyes" });
  const outputs = {
    file: file("calls/{room_name}"),
    segments: new sdk.SegmentedFileOutput({ filenamePrefix: "lost", playlistName: "lost", segmentDuration: 1 }),
  };
  const { egressId, status } = await egress.startRoomCompositeEgress("four eyes", outputs, {
    layout: "grid",
    ...small(),
  });
  expect(status).toBe(0);
  const isRecorded = async () => (await stage.rooms.listRooms(["four eyes"]))[0].activeRecording;
  expect(await isRecorded()).toBe(false);
  const { id } = (await stage.stoa.rooms.list()).find(({ name }) => name === "four eyes") ?? { id: "" };
  const ann = await sender(stage, id, "ann", red, 500);
  expect((await active(egressId)).status).toBe(1);
  expect(await isRecorded()).toBe(true);
  const [listed] = await stage.rooms.listRooms(["four eyes"]);
  expect([listed.numParticipants, (await stage.stoa.rooms.get(id)).participantCount]).toEqual([1, 1]);
  await written(egressId);
  await Bun.sleep(3_000);
  const ben = await sender(stage, id, "ben", lime, 1_500);
  const { pid, argument: playlist } = processWith("lost.m3u8");
  const shows = (colours: string[]) => coloursAt(lastSegment(playlist), 0, HALVES).join() === colours.join();
  while (!shows(["red", "green"])) await Bun.sleep(250);
  const shown = lastSegment(playlist);
  while (lastSegment(playlist) === shown) await Bun.sleep(100);
  process.kill(pid, "SIGKILL");
  await egress.stopEgress(egressId);
  const info = await ended(egressId);
  // The failed output does not end the others, and is reported.
  expect([info.status, info.error]).toEqual([3, "ended with SIGKILL"]);
  expect(await isRecorded()).toBe(false);
  const [made] = info.fileResults;
  expect([made?.filename, existsSync(made?.location ?? "")]).toEqual(["calls/four eyes.mp4", true]);
  const path = made?.location ?? "";
  const streams = media(
    "ffprobe",
    "-show_entries",
    "stream=codec_name,width,height,r_frame_rate",
    "-of",
    "csv=p=0",
    path,
  );
  expect(streams.split("\n").slice(0, 2)).toEqual(["h264,320,180,10/1", "aac,0/0"]);
  // Alone ann fills the frame; then both are side by side.
  const end = lastSecond(made);
  expect(coloursAt(path, end, HALVES)).toEqual(["red", "green"]);
  const together = loudestSecond(path, end, 500, 1_500);
  expect(loudnessOf(path, together, 500)).toBeGreaterThan(0.05);
  expect(loudnessOf(path, together, 1_500)).toBeGreaterThan(0.05);
  expect(loudnessOf(path, together, 1_000)).toBeLessThan(0.02);
  expect(loudnessOf(path, 1, 1_500)).toBeLessThan(0.02);
  await Promise.all([ann.close(), ben.close()]);
}, 180_000);

test("one egress sends to a bucket as a file and as segments, and a stream that fails does not end them", async () => {
  await stage.rooms.createRoom({ name: "outputs" });
  const { id } = (await stage.stoa.rooms.list()).find(({ name }) => name === "outputs") ?? { id: "" };
  const ann = await sender(stage, id, "ann", red, 500);
  const closed = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  closed.stop(true);
  const outputs = {
    file: file("films/whole.mp4", s3()),
    segments: new sdk.SegmentedFileOutput({
      filenamePrefix: "films/part",
      playlistName: "list",
      segmentDuration: 2,
      output: s3(),
    }),
    stream: new sdk.StreamOutput({ urls: [`rtmp://127.0.0.1:${closed.port}/live/very-secret-key`] }),
  };
  const started = await egress.startRoomCompositeEgress("outputs", outputs, { layout: "speaker", ...small() });
  expect(started.streamResults[0].url).toBe(`rtmp://127.0.0.1:${closed.port}/live/{ver...key}`);
  expect(started.toJsonString()).not.toContain(CREDENTIALS.secretAccessKey);
  const nowhere = file("lost.mp4", s3(`http://127.0.0.1:${closed.port}`));
  const lost = await egress.startRoomCompositeEgress("outputs", { file: nowhere }, { layout: "speaker", ...small() });
  await until(started.egressId, ({ streamResults: [first] }) => first?.status === 2);
  await Promise.all([written(started.egressId), written(lost.egressId)]);
  await Bun.sleep(5_000);
  await egress.stopEgress(lost.egressId);
  const { status, error } = await ended(lost.egressId);
  expect([status, error]).toEqual([
    4,
    "The bucket did not take a file. It cannot be reached. Addresses of private networks need EGRESS_ALLOW_PRIVATE.",
  ]);
  await egress.stopEgress(started.egressId);
  const info = await ended(started.egressId);
  expect(info.status).toBe(3);
  expect(info.streamResults[0]?.error).not.toContain("very-secret-key");
  expect(info.fileResults[0]?.location).toBe(`${bucket.endpoint}/films/films/whole.mp4`);
  expect(info.segmentResults[0]).toMatchObject({ playlistName: "films/list.m3u8" });
  const names = [...bucket.objects.keys()].sort();
  expect(names.slice(0, 2)).toEqual(["films/list.m3u8", "films/part_00000.ts"]);
  expect(Number(info.segmentResults[0]?.segmentCount)).toBe(names.filter((name) => name.endsWith(".ts")).length);
  const whole = join(folder, "whole.mp4");
  writeFileSync(whole, bucket.objects.get("films/whole.mp4")?.bytes ?? "");
  expect(coloursAt(whole, lastSecond(info.fileResults[0]), [[0.5, 0.5]])).toEqual(["red"]);
  const stored = stage.server.runtime.db.$client.query("SELECT * FROM egresses").all();
  for (const secret of [CREDENTIALS.secretAccessKey, CREDENTIALS.accessKeyId, "very-secret-key"])
    expect(JSON.stringify(stored)).not.toContain(secret);
  await ann.close();
}, 180_000);

test("single participants and tracks are composed, and end with them", async () => {
  await stage.rooms.createRoom({ name: "single" });
  const { id } = (await stage.stoa.rooms.list()).find(({ name }) => name === "single") ?? { id: "" };
  const [ann, ben] = await Promise.all([sender(stage, id, "ann", red, 500), sender(stage, id, "ben", lime, 1_500)]);
  const { tracks } = await stage.rooms.getParticipant("single", "ann");
  const microphone = tracks.find((track: { type: number }) => track.type === 0).sid;
  const camera = tracks.find((track: { type: number }) => track.type === 1).sid;
  const swapped = egress.startTrackCompositeEgress("single", { file: file("x") }, { audioTrackId: camera, ...small() });
  expect(await swapped.catch(codeOf)).toBe("invalid_argument");
  const one = await egress.startParticipantEgress("single", "ben", { file: file("{publisher_identity}") }, small());
  const two = await egress.startTrackEgress(
    "single",
    new sdk.DirectFileOutput({ filepath: "{track_type}" }),
    microphone,
  );
  await expect(egress.startRoomCompositeEgress("single", file("third"), small()).catch(codeOf)).resolves.toBe(
    "resource_exhausted",
  );
  await Promise.all([written(one.egressId), written(two.egressId)]);
  await Bun.sleep(6_000);
  for (const { egressId } of [one, two]) await egress.stopEgress(egressId);
  const [film, sound] = [await ended(one.egressId), await ended(two.egressId)];
  expect([film.status, sound.status]).toEqual([3, 3]);
  const [shown, heard] = [film.fileResults[0], sound.fileResults[0]];
  const path = shown?.location ?? "";
  expect(
    coloursAt(path, lastSecond(shown), [
      [0.2, 0.5],
      [0.8, 0.5],
    ]),
  ).toEqual(["green", "green"]);
  const second = loudestSecond(path, lastSecond(shown), 1_500);
  expect(loudnessOf(path, second, 1_500)).toBeGreaterThan(0.05);
  expect(loudnessOf(path, second, 500)).toBeLessThan(0.02);
  expect(heard?.filename).toBe("audio.ogg");
  const audio = heard?.location ?? "";
  expect(loudnessOf(audio, loudestSecond(audio, lastSecond(heard), 500), 500)).toBeGreaterThan(0.05);
  await Promise.all([ann.close(), ben.close()]);
}, 180_000);

test("an unsupported or forbidden request is refused with the reason, and nothing is stored", async () => {
  const refusal = (work: Promise<unknown>) => work.then(() => "taken", codeOf);
  await stage.rooms.createRoom({ name: "refused" });
  const before = (await egress.listEgress()).length;
  const start = (output: object, options = {}) => refusal(egress.startRoomCompositeEgress("refused", output, options));
  expect(await start(file("../x"))).toBe("invalid_argument");
  expect(await start(file("x"), { customBaseUrl: "https://example.com" })).toBe("unimplemented");
  expect(await start(file("x"), { layout: "mosaic" })).toBe("unimplemented");
  expect(await start(file("x"), { encodingOptions: new sdk.EncodingOptions({ width: 4_000 }) })).toBe(
    "invalid_argument",
  );
  expect(await start(new sdk.StreamOutput({ urls: ["rtmp://169.254.169.254/live/key"] }))).toBe("invalid_argument");
  expect(await start(new sdk.StreamOutput({ urls: ["file:///etc/passwd"] }))).toBe("invalid_argument");
  expect(await start(new sdk.StreamOutput({ urls: [] }))).toBe("invalid_argument");
  expect(await refusal(egress.startRoomCompositeEgress("no such room", file("x")))).toBe("not_found");
  expect(await refusal(egress.startTrackEgress("refused", file("x"), "TR_none"))).toBe("not_found");
  expect(await refusal(egress.startWebEgress("https://example.com", { file: file("x") }))).toBe("unimplemented");
  expect(await refusal(egress.stopEgress("EG_none"))).toBe("not_found");
  const { rooms, stoa } = stage;
  await stoa.rooms.create({ name: "secret", encrypted: true });
  expect(await refusal(egress.startRoomCompositeEgress("secret", file("x")))).toBe("failed_precondition");
  const token = await stage.token("refused", "x", { grant: { roomAdmin: true } });
  const response = await fetch(`${stage.server.url}/twirp/livekit.Egress/ListEgress`, {
    method: "POST",
    body: "{}",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
  });
  expect(response.status).toBe(403);
  expect((await egress.listEgress()).length).toBe(before);
  await rooms.deleteRoom("refused");
}, 60_000);

test("an egress that waits for its first track is aborted by its stop, and by the end of its room", async () => {
  for (const end of [(id: string) => egress.stopEgress(id), () => stage.rooms.deleteRoom("waiting")]) {
    await stage.rooms.createRoom({ name: "waiting" });
    const { egressId } = await egress.startRoomCompositeEgress("waiting", file("waiting"), small());
    await end(egressId);
    expect((await ended(egressId)).status).toBe(5);
  }
  expect(existsSync(join(folder, "waiting.mp4"))).toBe(false);
}, 60_000);

/** The process with this text in its command line, and the argument that has it. */
function processWith(text: string): { pid: number; argument: string } {
  for (const name of readdirSync("/proc")) {
    const pid = Number(name);
    if (!(pid > 0) || pid === process.pid) continue;
    try {
      const argument = readFileSync(`/proc/${name}/cmdline`, "utf8")
        .split("\0")
        .find((one) => one.includes(text));
      if (argument !== undefined) return { pid, argument };
    } catch {
      // The process has ended.
    }
  }
  throw new Error(`no process has ${text}`);
}

/** The newest segment that is complete. */
function lastSegment(playlist: string): string {
  const names = readFileSync(playlist, "utf8").match(/^[^#\n].*$/gm) ?? [];
  return join(dirname(playlist), basename(names.at(-1) ?? ""));
}

test("a compositor completes its file when the server is gone, and what it wrote plays when its writer is killed", async () => {
  const [path, killed] = [join(folder, "left.mp4"), join(folder, "killed.mp4")];
  const child = Bun.spawn(
    [process.execPath, "--no-env-file", join(import.meta.dir, "../../../src/main.ts"), "compositor"],
    {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    },
  );
  const encoding = {
    width: 160,
    height: 90,
    framesPerSecond: 10,
    videoKbps: 100,
    audioKbps: 64,
    keyframeSeconds: 1,
    videoProfile: "main",
  };
  const sound = { audioCodec: "aac", audioFrequency: 48_000, hasVideo: true, hasAudio: true };
  const outputs = [
    { kind: "file", id: "a", path, format: "mp4" },
    { kind: "file", id: "b", path: killed, format: "mp4" },
  ];
  const start = { type: "start", ffmpeg: "ffmpeg", font: null, layout: "grid", showsNames: false };
  child.stdin.write(`${JSON.stringify({ ...start, encoding: { ...encoding, ...sound }, outputs })}\n`);
  child.stdin.flush();
  let said = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    said += text;
    if (said.includes('"failed"')) break;
    if (said.split('"active"').length < 3) continue;
    while (Bun.file(killed).size < 2_000) await Bun.sleep(50);
    process.kill(processWith(killed).pid, "SIGKILL");
  }
  expect(media("ffprobe", "-show_entries", "stream=codec_name", "-of", "csv=p=0", killed)).toBe("h264\naac\n");
  child.stdin.end();
  expect(await child.exited).toBe(0);
  expect(media("ffprobe", "-show_entries", "stream=codec_name", "-of", "csv=p=0", path)).toBe("h264\naac\n");
  expect(readFileSync(path).subarray(4, 8).toString()).toBe("ftyp");
}, 60_000);

test("ffmpeg decodes nothing that claims more pixels than a screen has", () => {
  const ffmpeg = findFfmpeg() ?? "";
  const decoded = (side: number) => {
    const made = [
      "-f",
      "lavfi",
      "-i",
      `color=black:s=${side}x${side}`,
      "-frames:v",
      "1",
      "-c:v",
      "mjpeg",
      "-f",
      "mjpeg",
      "-",
    ];
    const { stdout: picture } = Bun.spawnSync([ffmpeg, "-loglevel", "error", ...made]);
    const read = ["-f", "mjpeg", "-i", "pipe:0", "-f", "null", "-"];
    return Bun.spawnSync([ffmpeg, "-loglevel", "error", "-xerror", ...BOUNDED_FRAMES, ...read], { stdin: picture })
      .exitCode;
  };
  expect([decoded(2_048) === 0, decoded(4_200) === 0]).toEqual([true, false]);
});
