/** hls: a live stream behind nginx as a cache: how far hls.js is behind, whether it rewinds by a minute, and what a crowd costs the server. `bin/bench hls [viewers] [seconds]` */
import { join } from "node:path";
import { installPackages } from "../../bin/debian-packages.ts";
import type { VideoCodec } from "../../web/sdk/room/peer/codecs.ts";
import { hlsDelayMs, hlsPlayer, playHls, publishBrightness } from "../e2e/hls-page.ts";
import { joinRoom } from "../e2e/sdk/page-api.ts";
import { openStage, type SitePage } from "../e2e/sdk/stage.ts";
import { cpuNanos } from "./harness/processes.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { startCache } from "./hls/cache.ts";
import type { Fared } from "./hls/viewers.ts";

const [viewers = "200", seconds = "15"] = process.argv.slice(2);
const HLS_JS = join(import.meta.dir, "../../node_modules/hls.js/dist/hls.min.js");
const MINUTE_MS = 60_000;
/** From the beginning of the stream to the rewind by a minute. */
const REWIND_AFTER_MS = 75_000;
/** All viewers have come, and get what is new. */
const GATHERED_MS = 6_000;
const REWOUND_REQUESTS = 12;
/** Brightness says the time modulo this. */
const ROUND_MS = 25_600;

await installPackages(["chromium", "firefox-esr", "ffmpeg"]);
const stage = await openStage();
const cache = await startCache(stage.server.url);
const figures: Measured[] = [];

/** A page that plays through the cache, from when its video moves. */
async function play(url: string): Promise<SitePage> {
  const page = await stage.page();
  await page.addScriptTag({ path: HLS_JS });
  await page.evaluate(playHls, url);
  await page.waitForFunction(() => (document.querySelector("video") as HTMLVideoElement).currentTime > 0.5, undefined, {
    timeout: 120_000,
  });
  return page;
}

async function delays(page: SitePage, forMs: number): Promise<number[]> {
  const found: number[] = [];
  for (const until = Date.now() + forMs; Date.now() < until; await Bun.sleep(500))
    found.push(await page.evaluate(hlsDelayMs));
  return found;
}

/** Cores that the server takes meanwhile. */
async function cores(during: () => Promise<unknown>): Promise<number> {
  const [before, startedAt] = [cpuNanos(stage.server.pid), performance.now()];
  await during();
  return (cpuNanos(stage.server.pid) - before) / 1e6 / (performance.now() - startedAt);
}

function noteDelays(what: string, found: readonly number[]): void {
  figures.push({
    what: `${what}: behind the host, median`,
    value: median(found) / 1_000,
    unit: "s",
    goal: { atMost: 4 },
  });
  figures.push({ what: `${what}: behind the host, at most`, value: Math.max(...found) / 1_000, unit: "s" });
}

try {
  const { stoa } = stage;
  const stream = await stoa.liveStreams.create({ title: "show", hostIdentity: "ada", record: true });
  const host = await stage.page();
  await joinRoom(host, await stage.rtc(stream.roomId, "ada"));
  await host.evaluate(publishBrightness, "H264" as VideoCodec);
  await stoa.liveStreams.start(stream.id);
  const startedAt = Date.now();
  const viewer = await stoa.liveStreams.mintViewerToken(stream.id, { identity: "grace" });
  const url = `${cache.url}/v1/live-streams/${stream.id}/hls/index.m3u8?token=${viewer.rtc.token}`;
  while (!(await (await fetch(url)).text()).includes("RESOLUTION=")) await Bun.sleep(250);

  const early = await play(url);
  noteDelays("hls.js", await delays(early, Number(seconds) * 1_000));

  const watched = () => Bun.sleep(Number(seconds) * 1_000);
  const before = await cores(watched);
  const crowd = Bun.spawn([process.execPath, join(import.meta.dir, "hls/viewers.ts"), url, viewers], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  });
  await Bun.sleep(GATHERED_MS);
  let amongThem: number[] = [];
  const during = await cores(async () => {
    amongThem = await delays(early, Number(seconds) * 1_000);
  });
  crowd.stdin.write("\n");
  await crowd.stdin.end();
  const fared = JSON.parse(await new Response(crowd.stdout).text()) as Fared;
  const after = await cores(watched);
  noteDelays(`hls.js among ${viewers}`, amongThem);
  const without = (before + after) / 2;
  figures.push({ what: "the stream with one viewer", value: 100 * without, unit: "% of a core" });
  const cost = 100 * (during - without);
  figures.push({ what: `${viewers} more viewers`, value: cost, unit: "% of a core", goal: { atMost: 5 } });
  const refused = Object.values(fared.refused).reduce((sum, times) => sum + times, 0);
  figures.push({ what: "refused of their requests", value: refused, unit: "", goal: { atMost: 0 } });
  figures.push({
    what: "the newest part when they have its list, median",
    value: fared.behindMs[0] ?? 0,
    unit: "ms old",
  });

  // A client that comes now has nothing of the last minute in its buffer.
  await Bun.sleep(Math.max(0, startedAt + REWIND_AFTER_MS - Date.now()));
  const late = await play(url);
  const [liveMs = 0] = await delays(late, 400);
  const asked = cache.log().length;
  await late.evaluate((byMs) => {
    const made = document.querySelector("video") as HTMLVideoElement;
    Object.assign(window, { rewoundTo: made.currentTime - byMs / 1_000 });
    made.currentTime -= byMs / 1_000;
  }, MINUTE_MS);
  const played = await late
    .waitForFunction(
      () => {
        const made = document.querySelector("video") as HTMLVideoElement;
        const { rewoundTo } = window as unknown as { rewoundTo: number };
        return !made.seeking && made.currentTime > rewoundTo + 2 && made.currentTime < rewoundTo + 20;
      },
      undefined,
      { timeout: 30_000 },
    )
    .then(
      () => true,
      () => false,
    );
  const oldMs = await late.evaluate(hlsDelayMs);
  const offMs = Math.abs(oldMs - ((liveMs + MINUTE_MS) % ROUND_MS));
  // The requests that the cache had to make again.
  const since = cache
    .log()
    .slice(asked, asked + REWOUND_REQUESTS)
    .map(({ path, from }) => `${path.split("/").at(-1)} ${from}`);
  const { errors } = await late.evaluate(hlsPlayer);
  figures.push({ what: "rewound by a minute, plays on", value: played ? 1 : 0, unit: "", goal: { atLeast: 1 } });
  figures.push({
    what: "its picture is a minute older, off by",
    value: Math.min(offMs, ROUND_MS - offMs) / 1_000,
    unit: "s",
    goal: { atMost: 4 },
  });
  figures.push({ what: "fatal errors of hls.js", value: errors.length, unit: "", goal: { atMost: 0 } });
  const answered: Record<string, number> = {};
  for (const { status, from } of cache.log()) answered[`${status} ${from}`] = (answered[`${status} ${from}`] ?? 0) + 1;
  report("hls", figures, { viewers: Number(viewers), errors, fared, answered, rewind: since });
} finally {
  await cache.close();
  await stage.close();
}
process.exit();
