import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as pathOf } from "node:path";
import { type RunningStoa, startStoa } from "../../src/cli/start/start-stoa.ts";
import { frames, readWav } from "../../src/rtc-client/participant/audio-source.ts";
import {
  type AudioEvent,
  bars,
  join,
  type Participant,
  tone,
  type VideoEvent,
} from "../../src/rtc-client/participant/participant.ts";
import { SimulatedNetwork } from "../../src/rtc-client/participant/simulated-network.ts";
import { crc32, crc32ByTable } from "../../src/sfu/wire/stun/stun.ts";
import { Stoa } from "../../web/sdk/server.ts";
import { pitchOf, wavOf } from "./sound.ts";

let server: RunningStoa;
let stoa: Stoa;
beforeAll(async () => {
  server = await startStoa();
  stoa = new Stoa(server);
});
afterAll(() => server.stop());

const open: Participant[] = [];
async function enter(room: string, user: string, options: Parameters<typeof join>[2] = {}): Promise<Participant> {
  const { rtc } = await stoa.mintJoin({ room, user });
  const participant = await join(rtc.endpoint, rtc.token, options);
  open.push(participant);
  return participant;
}
afterAll(async () => {
  for (const participant of open) await participant.close();
});

/** Listens until this many seconds of audio have arrived. */
function hear(participant: Participant, seconds: number): Promise<AudioEvent & { samples: Int16Array }> {
  return new Promise((resolve) => {
    const heard: number[] = [];
    const off = participant.on("audio", (event) => {
      heard.push(...event.samples);
      if (heard.length < seconds * event.sampleRate) return;
      off();
      resolve({ ...event, samples: Int16Array.from(heard) });
    });
  });
}

const once = <T>(listen: (done: (value: T) => void) => void) => new Promise<T>(listen);

test("[21] audio, video and data reach the other participant, with roster and speaker events", async () => {
  const anna = await enter("talk", "anna");
  const joined = once<string>((done) => anna.once("participantJoined", ({ identity }) => done(identity)));
  const ben = await enter("talk", "ben");
  expect(await joined).toBe("ben");
  expect([...ben.participants.keys()]).toEqual(["anna"]);

  const seen = once<VideoEvent>((done) => ben.once("video", done));
  const heard = hear(ben, 1.5);
  const speaks = once<string | undefined>((done) =>
    ben.on("activeSpeakersChanged", ([first]) => first && done(first.identity)),
  );
  const voice = await anna.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });
  const video = await anna.publishVideo(bars());
  expect(await heard).toMatchObject({ identity: "anna", trackId: voice.id, sampleRate: 48_000, channels: 1 });
  expect(Math.abs(pitchOf((await heard).samples.slice(-48_000), 48_000) - 440)).toBeLessThan(2);
  expect(await seen).toMatchObject({
    identity: "anna",
    trackId: video.id,
    codec: "VP8",
    keyframe: true,
    width: 320,
    height: 180,
  });
  expect(await speaks).toBe("anna");

  const data = once((done) => ben.once("dataReceived", done));
  await anna.sendData("hello", { topic: "greeting" });
  expect(await data).toMatchObject({ from: "anna", topic: "greeting", payload: "hello" });

  const gone = once<string>((done) => ben.once("trackUnpublished", ({ id }) => done(id)));
  await voice.stop();
  expect(await gone).toBe(voice.id);
  await voice.done;
  const left = once<string>((done) => ben.once("participantLeft", ({ identity }) => done(identity)));
  await anna.close();
  expect(await left).toBe("anna");
}, 150_000);

test("[21] a WAV file of another sample rate keeps its pitch and its length", async () => {
  const folder = mkdtempSync(pathOf(tmpdir(), "stoa-wav-"));
  const path = pathOf(folder, "note.wav");
  // Long enough for a listener who is slow to come.
  writeFileSync(path, wavOf({ hz: 300, seconds: 40, sampleRate: 44_100, channels: 2 }));
  const short = pathOf(folder, "short.wav");
  writeFileSync(short, wavOf({ hz: 300, seconds: 0.5, sampleRate: 44_100, channels: 2 }));
  const [carl, dora] = [await enter("music", "carl"), await enter("music", "dora")];
  const heard = hear(dora, 2);
  const track = await carl.publishAudio(path);
  expect(Math.abs(pitchOf((await heard).samples.slice(-48_000), 48_000) - 300)).toBeLessThan(2);
  await track.stop();
  await (await carl.publishAudio(short)).done;
  rmSync(folder, { recursive: true });
}, 150_000);

test.each(["mp3", "opus"])(
  "[21] a file of another kind is decoded: %s",
  async (kind) => {
    const folder = mkdtempSync(pathOf(tmpdir(), "stoa-file-"));
    const path = pathOf(folder, `note.${kind}`);
    writeFileSync(pathOf(folder, "note.wav"), wavOf({ hz: 700, seconds: 40, sampleRate: 48_000, channels: 1 }));
    expect(await Bun.spawn(["ffmpeg", "-loglevel", "error", "-i", pathOf(folder, "note.wav"), path]).exited).toBe(0);
    const [lea, mia] = [await enter(`file-${kind}`, "lea"), await enter(`file-${kind}`, "mia")];
    const heard = hear(mia, 2);
    await lea.publishAudio(path);
    expect(Math.abs(pitchOf((await heard).samples.slice(-48_000), 48_000) - 700)).toBeLessThan(3);
    rmSync(folder, { recursive: true });
  },
  150_000,
);

test("[21] raw video is encoded and received", async () => {
  const folder = mkdtempSync(pathOf(tmpdir(), "stoa-y4m-"));
  const path = pathOf(folder, "bars.y4m");
  const source = ["-f", "lavfi", "-i", "testsrc=size=160x120:rate=10:duration=45", "-pix_fmt", "yuv420p"];
  expect(await Bun.spawn(["ffmpeg", "-loglevel", "error", ...source, path]).exited).toBe(0);
  const [nora, otto] = [await enter("raw", "nora"), await enter("raw", "otto")];
  const seen = once<VideoEvent>((done) => otto.once("video", done));
  await nora.publishVideo(path);
  expect(await seen).toMatchObject({ codec: "VP8", keyframe: true, width: 160, height: 120 });
  // A late subscriber waits for a keyframe, which a file cannot be asked for.
  const late = await enter("raw", "pia");
  expect(await once<VideoEvent>((done) => late.once("video", done))).toMatchObject({ keyframe: true });
  rmSync(folder, { recursive: true });
}, 150_000);

test("[21] a lost connection is restored, and audio continues", async () => {
  const [eve, finn] = [await enter("back", "eve"), await enter("back", "finn")];
  await eve.publishAudio(tone({ hz: 500 }), {});
  await hear(finn, 0.5);
  const back = once<void>((done) => finn.once("reconnected", () => done()));
  finn.simulateReconnect();
  await back;
  expect(Math.abs(pitchOf((await hear(finn, 1.5)).samples.slice(-48_000), 48_000) - 500)).toBeLessThan(2);
}, 150_000);

test("[21] audio continues on a network that loses a tenth of all packets", async () => {
  const [gail, hugo] = [await enter("loss", "gail", { network: { loss: 0.1, seed: 7 } }), await enter("loss", "hugo")];
  await gail.publishAudio(tone({ hz: 440 }), {});
  expect(Math.abs(pitchOf((await hear(hugo, 3)).samples.slice(-96_000), 48_000) - 440)).toBeLessThan(5);
}, 150_000);

test("[21] the same seed loses the same packets, and another seed loses others", async () => {
  const fate = async (seed: number) => {
    const arrived: number[] = [];
    const receiver = await new SimulatedNetwork().open((data) => arrived.push(data.readUInt16BE(0)));
    const network = new SimulatedNetwork();
    network.set({ loss: 0.3, seed });
    const sender = await network.open(() => {});
    for (let number = 0; number < 200; number++) {
      sender.send(Uint8Array.of(number >> 8, number & 0xff), receiver.port, "127.0.0.1");
      if (number % 20 === 0) await Bun.sleep(1);
    }
    // The last one comes over a network without faults, after the others.
    network.set({});
    sender.send(Uint8Array.of(0xff, 0xff), receiver.port, "127.0.0.1");
    while (!arrived.includes(0xffff)) await Bun.sleep(1);
    for (const socket of [sender, receiver]) socket.close();
    return arrived.filter((number) => number !== 0xffff).sort((a, b) => a - b);
  };
  const first = await fate(7);
  expect(first.length).toBeGreaterThan(100);
  expect(first.length).toBeLessThan(180);
  expect(await fate(7)).toEqual(first);
  expect(await fate(8)).not.toEqual(first);
  expect(() => new SimulatedNetwork().set({ loss: 5 })).toThrow(/share from 0 to 1/);
});

test("a refused token and an invalid file are reported", async () => {
  const { rtc } = await stoa.mintJoin({ room: "refused", user: "ida" });
  await stoa.rooms.close(rtc.roomId);
  await expect(join(rtc.endpoint, rtc.token)).rejects.toThrow(/ROOM_CLOSED/);
  await expect(join("ws://127.0.0.1:1/v1/rtc", "x")).rejects.toThrow("http://127.0.0.1:1 could not be reached (1006)");
  const kim = await enter("files", "kim");
  await expect(kim.publishAudio(import.meta.path)).rejects.toThrow(/cannot be read/);
  await expect(kim.publishAudio("/nowhere/at-all.mp3")).rejects.toThrow(/ENOENT/);
  await expect(kim.publishVideo(import.meta.path)).rejects.toThrow(/neither an IVF nor a Y4M/);
}, 150_000);

test("samples are cut into frames of 20 ms whatever the chunks, without losing any", async () => {
  const chunks = [100, 959, 1, 5_000, 3].map((length, chunk) =>
    Int16Array.from({ length }, (_, i) => (chunk * 5_000 + i) % 30_000),
  );
  const made: Int16Array[] = [];
  for await (const frame of frames(chunks, { sampleRate: 48_000, channels: 1 }, 48_000)) made.push(frame.slice());
  expect(made.every(({ length }) => length === 960)).toBe(true);
  const all = chunks.flatMap((chunk) => [...chunk]);
  expect(made.flatMap((frame) => [...frame]).slice(0, all.length)).toEqual(all);
  expect(() => readWav(new Uint8Array(44))).toThrow(/not a WAV/);
});

test("the checksum for other runtimes is the same as Bun's", () => {
  for (const length of [0, 1, 20, 300]) {
    const data = crypto.getRandomValues(new Uint8Array(length));
    expect(crc32ByTable(data)).toBe(crc32(data));
  }
});
