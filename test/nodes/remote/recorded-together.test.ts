// needs: ffmpeg faketime python3
/** A live stream on two media nodes, whose clocks differ, with a microphone that drifts: recorded, composed and as HLS, everything stays in sync. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MediaConnection } from "../../../src/rtc-client/participant/media-connection.ts";
import { SimulatedNetwork } from "../../../src/rtc-client/participant/simulated-network.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { type Link, openLink } from "../../e2e/networks/link.ts";
import { media } from "../../features/recordings/ffmpeg.ts";
import { beeps, flashes } from "../../features/recordings/flash-and-beep.ts";
import { h264, opus } from "../../features/recordings/packetizers.ts";
import { fakeClock } from "../../harness/fake-clock.ts";
import { Fleet } from "./fleet-of-processes.ts";
import type { Member } from "./member.ts";
import { until } from "./until.ts";

const LONG = 180_000;
/** Goal: what belongs together is at most this far apart. */
const IN_SYNC_MS = 50;
/** Not a multiple of a second, as it flashes and beeps once a second. */
const CLOCK_AHEAD_SECONDS = 2.4;
const FRAME_MS = 40;
const PACKET_MS = 20;
const RECORDED_MS = 8_000;
const SECONDS = 8;
/** How many samples a microphone has of a second. The drifting one loses as much in eight seconds as one with 200 ppm in ten minutes. */
const STEADY = { hz: 1_000, soundMs: 1_000 };
const DRIFTING = { hz: 3_000, soundMs: 985 };

const folder = mkdtempSync(join(tmpdir(), "stoa-together-"));
const stops: (() => unknown)[] = [];
let fleet: Fleet;
let link: Link | null = null;

beforeAll(async () => {
  fleet = await Fleet.start();
  const { control, us1 } = fleet.lan.machines;
  link = await openLink(control, us1);
  link.set({ up: { delayMs: 40 }, down: { delayMs: 40 } });
  fleet.nodeEnv.us1 = fakeClock({ FAKETIME: `+${CLOCK_AHEAD_SECONDS}` });
  const flags = (name: string) => ["--recording-dir", join(folder, name)];
  await Promise.all([fleet.node("eu1", "eu", ...flags("eu1")), fleet.node("us1", "us", ...flags("us1"))]);
}, LONG);

afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  await link?.close();
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
}, LONG);

/** Eight seconds. The first fifth of each is bright and sounds. */
function content({ hz, soundMs }: typeof STEADY) {
  const isOn = (seconds: number) => `lt(mod(t,${seconds}),0.2)`;
  const lasts = SECONDS * soundMs;
  const encoded = (name: string, source: string, ...encoder: string[]) => {
    const path = join(folder, `${soundMs}-${name}`);
    media("ffmpeg", "-f", "lavfi", "-i", source, ...encoder, path);
    return readFileSync(path);
  };
  const seen = `color=black:size=160x90:rate=25:duration=${SECONDS},drawbox=color=white:t=fill:enable='${isOn(1)}'`;
  const heard = `aevalsrc='0.5*sin(2*PI*${hz}*t)*${isOn(soundMs / 1_000)}':sample_rate=48000:duration=${lasts / 1_000}`;
  const encoder = "-c:v libx264 -preset ultrafast -profile:v baseline -pix_fmt yuv420p -threads 1 -bf 0 -g 25";
  const frames = h264(encoded("seen.h264", seen, ...encoder.split(" "), "-sc_threshold", "0"));
  const packets = opus(encoded("heard.opus", heard, "-c:a", "libopus")).slice(0, lasts / PACKET_MS);
  return { frames, packets, soundMs };
}

const now = () => performance.timeOrigin + performance.now();

/** Sends the content over and over, as a browser does, from a second of the clock on. */
async function publish({ client }: Member, { frames, packets, soundMs }: ReturnType<typeof content>): Promise<void> {
  const connection = new MediaConnection({
    network: new SimulatedNetwork(),
    cipher: null,
    negotiate: client.negotiate,
    onAudio() {},
    onVideo() {},
  });
  await connection.connect([]);
  const camera = await connection.publish({ clientTrackId: "camera", kind: "video", source: "camera" }, "H264");
  const microphone = await connection.publish({ clientTrackId: "microphone", kind: "audio", source: "microphone" });
  const beginsAtMs = Math.ceil(now() / 1_000) * 1_000;
  let [frame, packet, reportedMs] = [0, 0, 0];
  const send = () => {
    const sinceMs = now() - beginsAtMs;
    for (; frame * FRAME_MS <= sinceMs; frame++) {
      const { payloads = [] } = frames[frame % frames.length] ?? {};
      for (const [n, payload] of payloads.entries())
        camera.send(payload, n === payloads.length - 1, frame * FRAME_MS * 90);
    }
    // A packet is complete at its end.
    const heardMs = (sinceMs * soundMs) / 1_000;
    for (; (packet + 1) * PACKET_MS <= heardMs; packet++) {
      const [payload] = packets[packet % packets.length]?.payloads ?? [];
      if (payload) microphone.send(payload, false, packet * PACKET_MS * 48);
    }
    if (sinceMs < reportedMs + 500) return;
    reportedMs = sinceMs;
    camera.report(beginsAtMs + sinceMs, Math.round(sinceMs * 90));
    microphone.report(beginsAtMs + sinceMs, Math.round((heardMs - PACKET_MS) * 48));
  };
  const timer = setInterval(send, 5);
  stops.push(() => {
    clearInterval(timer);
    connection.close();
  });
}

/** How far the first moments and the last ones are from full seconds of the clock, in the median of three. */
function lateMs(moments: readonly number[], startedAt: string): [first: number, last: number] {
  expect(moments.length).toBeGreaterThanOrEqual(6);
  const late = moments.map((ms) => ((((Date.parse(startedAt) + ms) % 1_000) + 1_500) % 1_000) - 500);
  const median = (of: number[]) => of.toSorted((a, b) => a - b)[1] ?? Number.NaN;
  return [median(late.slice(0, 3)), median(late.slice(-3))];
}

function expectInSync(late: Record<string, [number, number]>): void {
  console.log(
    "from full seconds, in ms:",
    JSON.stringify(late, (_, ms) => (typeof ms === "number" ? Math.round(ms) : ms)),
  );
  const all = Object.values(late).flat();
  expect(Math.max(...all) - Math.min(...all)).toBeLessThan(IN_SYNC_MS);
}

/** Everything of a rendition in one file, and where on the clock of the recording it begins. */
async function rendition(multivariant: URL, name: "video" | "audio"): Promise<{ path: string; beginsMs: number }> {
  const fetched = async (url: URL) => new Uint8Array(await (await fetch(url)).arrayBuffer());
  const address = new RegExp(`^.*?([^"\\s]*/${name}\\.m3u8)`, "m").exec(await (await fetch(multivariant)).text())?.[1];
  const playlistUrl = new URL(address ?? "", multivariant);
  const playlist = await (await fetch(playlistUrl)).text();
  const head = /#EXT-X-MAP:URI="(.+)"/.exec(playlist)?.[1] ?? "";
  const segments = playlist.split("\n").filter((line) => /^[^#].*\.m4s$/.test(line));
  const parts = await Promise.all([head, ...segments].map((uri) => fetched(new URL(uri, playlistUrl))));
  const path = join(folder, `${name}.mp4`);
  writeFileSync(path, Buffer.concat(parts));
  const beginsAt = media("ffprobe", "-show_entries", "format=start_time", "-of", "csv=p=0", path);
  return { path, beginsMs: Number(beginsAt) * 1_000 };
}

test(
  "[18] files, composition and HLS of a stream on two nodes are in sync within 50 ms from start to end, whatever their clocks show and although a microphone drifts",
  async () => {
    const { url, apiKey } = await fleet.facts();
    const stoa = new Stoa({ url, apiKey });
    const stream = await stoa.liveStreams.create({ title: "together", hostIdentity: "ada", record: true });
    const [steady, drifting] = [content(STEADY), content(DRIFTING)];
    const ada = await fleet.member(stream.roomId, "ada", "us");
    const ben = await fleet.member(stream.roomId, "ben", "eu");
    expect([ada.client.ack?.serverName, ben.client.ack?.serverName]).toEqual(["us1", "eu1"]);
    await publish(ada, drifting);
    await stoa.liveStreams.start(stream.id);
    const { rtc } = await stoa.liveStreams.mintViewerToken(stream.id, { identity: "cyd" });
    const multivariant = new URL(`${url}/v1/live-streams/${stream.id}/hls/index.m3u8?token=${rtc.token}`);
    // HLS carries the first who publishes: on the node whose clock is ahead.
    await until(async () => (await (await fetch(multivariant)).text()).includes("RESOLUTION="));
    await publish(ben, steady);
    const recording = async () => (await Array.fromAsync(stoa.recordings.list({ roomId: stream.roomId })))[0];
    await until(async () => {
      const { files = [] } = (await recording()) ?? {};
      return files.length === 4 && files.every(({ durationMs }) => durationMs > RECORDED_MS);
    });
    const [video, audio] = [await rendition(multivariant, "video"), await rendition(multivariant, "audio")];
    await stoa.liveStreams.end(stream.id);
    const ended = await until(async () => {
      const found = await recording();
      return found?.status !== "RECORDING" && found?.files.every(({ status }) => status === "READY") && found;
    });
    expect(ended).toMatchObject({ status: "READY", error: null });
    const { id, startedAt, files } = ended;
    const download = async (fileId: string): Promise<string> => {
      const path = join(folder, fileId);
      await Bun.write(path, await fetch((await stoa.recordings.downloadUrl(id, fileId)).url));
      return path;
    };
    const late: Record<string, [number, number]> = {};
    for (const file of files) {
      const moments = file.kind === "video" ? flashes : beeps;
      late[`${file.identity} ${file.kind}`] = lateMs(moments(await download(file.id), file.offsetMs), startedAt);
    }
    expect(Object.keys(late).sort()).toEqual(["ada audio", "ada video", "ben audio", "ben video"]);
    late["HLS video"] = lateMs(flashes(video.path, 0), startedAt);
    late["HLS audio"] = lateMs(beeps(audio.path, audio.beginsMs), startedAt);
    expectInSync(late);

    await stoa.recordings.compose(id, { layout: "grid", width: 640, height: 180, names: false });
    const { composition } = await until(async () => {
      const found = await stoa.recordings.get(id);
      return found.composition?.status !== "RUNNING" && found;
    });
    expect(composition).toMatchObject({ status: "READY", error: null });
    const film = await download(composition?.fileId ?? "");
    const tile = (x: string) => lateMs(flashes(film, 0, `iw/6:ih/3:${x}:10`), startedAt);
    const composed = {
      "left tile": tile("10"),
      "right tile": tile("iw/2+10"),
      "sound of ada": lateMs(beeps(film, 0, DRIFTING.hz), startedAt),
      "sound of ben": lateMs(beeps(film, 0, STEADY.hz), startedAt),
    };
    expectInSync({ ...late, ...composed });
  },
  LONG,
);
