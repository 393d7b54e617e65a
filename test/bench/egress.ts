/** egress: a call of two composed live at 720p to MP4, HLS and RTMP: how far it is behind, lip-sync, and what it takes beside a Chromium that shows the call and has its screen encoded. `bin/bench egress [seconds] [--composed]`; with --composed without that Chromium */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { installPackages } from "../../bin/debian-packages.ts";
import { join as joinRoom, type VideoFrame } from "../../src/rtc-client/participant/participant.ts";
import { openVideo } from "../../src/rtc-client/participant/video-source.ts";
import { joinRoom as joinPage } from "../e2e/sdk/page-api.ts";
import { serveSite } from "../e2e/sdk/stage.ts";
import { media } from "../features/recordings/ffmpeg.ts";
import { beeps } from "../features/recordings/flash-and-beep.ts";
import { openStage } from "../gateways/livekit/harness/stage.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { startRtmpServer } from "./egress/rtmp-server.ts";
import { cpuMicrosOfTree } from "./harness/processes.ts";
import { type Measured, median, report } from "./harness/report.ts";

const [seconds = "20", only] = process.argv.slice(2);
const SECOND_MS = 1_000;
const SETTLED_MS = 5_000;
const RATE = 48_000;
const CHUNK = RATE / 50;
const BEEP_CHUNKS = 10;
const FLASH_FRAMES = 6;
const DISPLAY = ":97";
const SIZE = { width: 1_280, height: 720 };
const SAME_ENCODER =
  "-c:v libx264 -preset veryfast -tune zerolatency -profile:v main -b:v 3000k -maxrate 3000k -bufsize 3000k -g 60";

await installPackages(["ffmpeg", "chromium", "xvfb"]);
const folder = mkdtempSync(join(tmpdir(), "stoa-bench-egress-"));
const stage = await openStage({ EGRESS_DIR: folder });
const sdk = await import(join(stage.packages, "livekit-server-sdk"));
const egress = new sdk.EgressClient(stage.server.url, stage.apiKey, stage.apiSecret);
const figures: Measured[] = [];

/** One second of 640 × 360 at 30 frames, which moves as a camera's video does. */
async function video(name: string, filter: string): Promise<VideoFrame[]> {
  const path = join(folder, `${name}.ivf`);
  const coding = "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 800k -g 30 -f ivf".split(" ");
  media("ffmpeg", "-f", "lavfi", "-i", `testsrc2=s=640x360:r=30:d=1${filter}`, ...coding, path);
  return [...((await openVideo(path)) as VideoFrame[])];
}

/** When the first frame or samples of each second were sent. */
const flashedAt: number[] = [];
const beepedAt: number[] = [];

async function* endless(frames: VideoFrame[], sent: number[]): AsyncGenerator<VideoFrame, void, void> {
  for (let second = 0; ; second++)
    for (const [i, frame] of frames.entries()) {
      yield { ...frame, timestampMs: frame.timestampMs + second * SECOND_MS };
      if (i === 0) sent.push(Date.now());
    }
}

function* beeping(sent: number[] | null): Generator<Int16Array, void, void> {
  for (let chunk = 0; ; chunk++) {
    const volume = sent && chunk % 50 < BEEP_CHUNKS ? 16_000 : 0;
    yield Int16Array.from({ length: CHUNK }, (_, i) => Math.sin((2 * Math.PI * 1_000 * i) / RATE) * volume);
    if (chunk % 50 === 0) sent?.push(Date.now());
  }
}

async function sender(room: string, identity: string, frames: VideoFrame[], flashes: number[], sound: number[] | null) {
  const permissions = { publish: true, subscribe: true, publishData: true };
  const { endpoint, token } = await stage.stoa.rtcTokens.mint(room, { participantIdentity: identity, permissions });
  const participant = await joinRoom(endpoint, token, { autoSubscribe: false });
  await participant.publishVideo(endless(frames, flashes));
  await participant.publishAudio(beeping(sound));
  return participant;
}

function childrenOf(pid: number): number[] {
  const threads = readdirSync(`/proc/${pid}/task`);
  return threads.flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number),
  );
}

const commandOf = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");

/** Cores that these processes take, with everything that they have started: the pages of Chromium are its grandchildren. */
async function cores(pids: readonly number[], forMs: number): Promise<number[]> {
  const [before, startedAt] = [pids.map(cpuMicrosOfTree), performance.now()];
  await Bun.sleep(forMs);
  const tookMs = performance.now() - startedAt;
  return pids.map((pid, i) => (cpuMicrosOfTree(pid) - (before[i] ?? 0)) / 1_000 / tookMs);
}

/** For each time in the one list, how much later the next time in the other list is. */
const later = (first: readonly number[], second: readonly number[]): number[] =>
  first.flatMap((at) => {
    const found = second.find((other) => other >= at);
    return found === undefined ? [] : [found - at];
  });

/** Moments, in milliseconds of the file, at which the left half becomes bright. */
function flashesIn(path: string): number[] {
  const crop = "crop=iw/4:ih/8:iw/8:7*ih/16,scale=1:1,format=gray";
  const decode = ["ffmpeg", "-v", "error", "-i", path, "-fps_mode", "passthrough", "-vf", crop, "-f", "rawvideo", "-"];
  const raw = Bun.spawnSync(decode).stdout;
  const times = media("ffprobe", "-select_streams", "v", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path);
  const at = times
    .split("\n")
    .filter(Boolean)
    .map((line) => Number.parseFloat(line) * 1_000);
  return at.filter((_, i) => (raw[i] ?? 0) > 128 && (raw[i - 1] ?? 255) <= 128);
}

/** Within one period, from −500 to 500 ms. */
const phase = (ms: number): number => ((((ms + 500) % 1_000) + 1_000) % 1_000) - 500;

/** How much later than the flash the beep is, minus the same difference when they were sent. */
function lipSync(path: string): number[] {
  const sentApart = median(beepedAt.slice(-10).map((at, i) => phase(at - (flashedAt.slice(-10)[i] ?? at))));
  // ffmpeg counts from the first packet, ffprobe from zero.
  const beganMs = Number(media("ffprobe", "-show_entries", "format=start_time", "-of", "csv=p=0", path)) * 1_000;
  const heard = beeps(path, beganMs);
  return flashesIn(path).map((flash) => {
    const nearest = heard.toSorted((a, b) => Math.abs(phase(a - flash)) - Math.abs(phase(b - flash)));
    const close = nearest.toSorted((a, b) => Math.abs(a - flash - sentApart) - Math.abs(b - flash - sentApart))[0];
    return Math.abs((close ?? Number.NaN) - flash - sentApart);
  });
}

async function composed(name: string): Promise<void> {
  const rtmp = await startRtmpServer(join(folder, "received.flv"));
  const outputs = {
    file: new sdk.EncodedFileOutput({ filepath: "whole.mp4" }),
    segments: new sdk.SegmentedFileOutput({ filenamePrefix: "part", playlistName: "list.m3u8", segmentDuration: 2 }),
    stream: new sdk.StreamOutput({ urls: [rtmp.url] }),
  };
  const { egressId } = await egress.startRoomCompositeEgress(name, outputs, { layout: "grid" });
  while (rtmp.flashes.length < 2) await Bun.sleep(100);
  await Bun.sleep(SETTLED_MS);
  const [compositor = 0] = childrenOf(process.pid).filter((pid) => commandOf(pid).includes("compositor"));
  const since = Date.now();
  const parts = childrenOf(compositor);
  const encoder = parts.find((pid) => commandOf(pid).includes("libx264")) ?? 0;
  const [whole = 0, encoding = 0] = await cores([compositor, encoder], Number(seconds) * SECOND_MS);
  await egress.stopEgress(egressId);
  let [info] = await egress.listEgress({ egressId });
  while (info.endedAt === 0n) {
    await Bun.sleep(200);
    [info] = await egress.listEgress({ egressId });
  }
  await rtmp.stop();
  const behind = later(
    flashedAt.filter((at) => at > since && at < since + (Number(seconds) - 2) * SECOND_MS),
    rtmp.flashes,
  );
  figures.push(
    { what: "RTMP: behind live, median", value: median(behind), unit: "ms", goal: { atMost: 2_000 } },
    { what: "RTMP: behind live, at most", value: Math.max(...behind), unit: "ms", goal: { atMost: 2_000 } },
  );
  for (const [what, path] of [
    ["MP4", info.fileResults[0].location],
    ["RTMP", rtmp.path],
  ] as const) {
    const apart = lipSync(path);
    figures.push(
      { what: `${what}: sound apart from video, median`, value: median(apart), unit: "ms" },
      { what: `${what}: sound apart from video, at most`, value: Math.max(...apart), unit: "ms", goal: { atMost: 80 } },
    );
  }
  figures.push(
    { what: "composed live to three outputs", value: whole, unit: "cores", goal: { atMost: 1 } },
    { what: "of which the encoder", value: encoding, unit: "cores" },
  );
  console.log(info.toJsonString());
}

/** Composes like LiveKit's egress: a Chromium on a virtual screen, and an encoder that captures the screen, without audio. */
async function shown(room: string): Promise<void> {
  const screen = Bun.spawn(["Xvfb", DISPLAY, "-screen", "0", `${SIZE.width}x${SIZE.height}x24`], { stderr: "ignore" });
  await Bun.sleep(1_000);
  const site = await serveSite();
  const env = { ...process.env, DISPLAY } as Record<string, string>;
  const args = [...CHROMIUM.args, "--kiosk", `--window-size=${SIZE.width},${SIZE.height}`];
  const server = await chromium.launchServer({ ...CHROMIUM, headless: false, args, env });
  const browser = await chromium.connect(server.wsEndpoint());
  const page = await browser.newPage({ viewport: null });
  await page.goto(site.url.href);
  const permissions = { publish: false, subscribe: true, publishData: false };
  await joinPage(page, await stage.stoa.rtcTokens.mint(room, { participantIdentity: "viewer", permissions }));
  await page.addStyleTag({ content: "body{margin:0;display:flex} video{width:50vw!important;height:100vh!important}" });
  await page.waitForFunction(
    () => [...document.querySelectorAll("video")].filter((one) => one.currentTime > 1).length === 2,
  );
  const grab = `-f x11grab -framerate 30 -video_size ${SIZE.width}x${SIZE.height} -i ${DISPLAY} -pix_fmt yuv420p`;
  const encoder = Bun.spawn(
    ["ffmpeg", "-v", "error", ...grab.split(" "), ...SAME_ENCODER.split(" "), "-f", "mpegts", "-y", "/dev/null"],
    { stdin: "ignore", stderr: "inherit" },
  );
  await Bun.sleep(SETTLED_MS);
  const pids = [server.process().pid ?? 0, screen.pid, encoder.pid];
  const [browsing = 0, drawing = 0, encoding = 0] = await cores(pids, Number(seconds) * SECOND_MS);
  encoder.kill("SIGKILL");
  await server.close();
  screen.kill();
  void site.stop(true);
  figures.push(
    { what: "Chromium that shows the call, its screen encoded", value: browsing + drawing + encoding, unit: "cores" },
    { what: "of which Chromium", value: browsing, unit: "cores" },
    { what: "of which the screen and its encoder", value: drawing + encoding, unit: "cores" },
  );
}

try {
  const name = "composed";
  const { id } = await stage.stoa.rooms.create({ name });
  const bright = `drawbox=color=white:t=fill:enable=lt(n\\,${FLASH_FRAMES})`;
  const flash = `,drawbox=color=black:t=fill,${bright},noise=alls=8:allf=t`;
  const [flashing, moving] = [await video("flash", flash), await video("moving", "")];
  const ann = await sender(id, "ann", flashing, flashedAt, beepedAt);
  const ben = await sender(id, "ben", moving, [], null);
  await composed(name);
  if (only !== "--composed") await shown(id);
  await Promise.all([ann.close(), ben.close()]);
  report("egress", figures, { seconds: Number(seconds) });
} finally {
  await stage.close();
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
