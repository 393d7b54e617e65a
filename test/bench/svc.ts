/** svc: what viewers of 200, 800 and 3,000 kbit/s see of one video, as SVC and as simulcast of the same uplink; `bin/bench svc [PART…]` */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Page } from "playwright-core";
import type { VideoCodec } from "../../web/sdk/room/peer/codecs.ts";
import { videoEncodings } from "../../web/sdk/room/peer/encodings.ts";
import { Stoa } from "../../web/sdk/server.ts";
import { PROGRAM, startStoa } from "../cli/stoa.ts";
import { openLink } from "../e2e/networks/link.ts";
import { serveSite } from "../e2e/sdk/stage.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { openLan } from "../harness/namespaces.ts";
import { keyPath, prepareData } from "../ops/served.ts";
import { cpuMicrosOfTree } from "./harness/processes.ts";
import { type Measured, report } from "./harness/report.ts";
import {
  type Compared,
  type Counted,
  compareFrames,
  countVideo,
  grabFrames,
  joinBench,
  prepareBench,
  publishBench,
  raiseTop,
} from "./svc/page.ts";

const SIZE: [number, number] = [960, 540];
const FRAMES_PER_SECOND = 15;
/** Chromium sends no more as SVC in this size. */
const UPLINK_BPS = 1_200_000;
const VIEWERS_KBITS = [200, 800, 3_000] as const;
const [SETTLING_MS, TUNING_MS, MEASURED_MS] = [8_000, 5_000, 20_000];
const MEDIA_PORT = "7001";

type Way = { name: string; codec: VideoCodec; mode: string | null };
const WAYS: Way[] = [
  { name: "VP8 simulcast", codec: "VP8", mode: null },
  { name: "VP9 simulcast", codec: "VP9", mode: null },
  { name: "VP9 L3T3_KEY", codec: "VP9", mode: "L3T3_KEY" },
  { name: "VP9 L3T3", codec: "VP9", mode: "L3T3" },
  { name: "AV1 simulcast", codec: "AV1", mode: null },
  { name: "AV1 L3T3_KEY", codec: "AV1", mode: "L3T3_KEY" },
  { name: "AV1 L3T3", codec: "AV1", mode: "L3T3" },
];
const wanted = process.argv.slice(2);
const ways = WAYS.filter(({ name }) => wanted.length === 0 || wanted.some((part) => `${name} `.includes(part)));

/** Simulcast by the SDK's own shares of the layers. */
function encodingsOf({ codec, mode }: Way): RTCRtpEncodingParameters[] {
  if (mode !== null) return [{ scalabilityMode: mode, maxBitrate: UPLINK_BPS } as RTCRtpEncodingParameters];
  const encodings = videoEncodings("camera", SIZE[1], { simulcast: true, codec });
  const sum = encodings.reduce((total, { maxBitrate = 0 }) => total + maxBitrate, 0);
  return encodings.map((one) => ({ ...one, maxBitrate: Math.round(((one.maxBitrate ?? 0) * UPLINK_BPS) / sum) }));
}

const work = mkdtempSync(join(tmpdir(), "stoa-bench-svc-"));
const lan = await openLan("server", "pages");
const { server, pages } = lan.machines;
const site = await serveSite(lan.address);
const link = await openLink(server, pages);
const dataDir = join(work, "data");
await prepareData(dataDir);
const { url, child } = await startStoa([
  ...[...server.prefix, ...PROGRAM, "serve", "--host", server.address, "--data-dir", dataDir],
  ...["--media-udp-port", MEDIA_PORT, "--media-workers", "1", "--public-ip", server.address],
  ...["--signaling-max-connections-per-window", "1000"],
]);
const stoa = new Stoa({ url, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
const browser = await chromium.launch({
  ...CHROMIUM,
  executablePath: pages.wrapper(CHROMIUM.executablePath, work),
  args: [...CHROMIUM.args, `--unsafely-treat-insecure-origin-as-secure=${site.url.origin}`],
});

async function measure(way: Way) {
  const { id } = await stoa.rooms.create({ name: way.name.replaceAll(" ", "-") });
  const open = async (participantIdentity: string) => {
    const page = await (await browser.newContext({ viewport: { width: 1_000, height: 600 } })).newPage();
    await page.goto(site.url.origin);
    await page.evaluate(prepareBench, SIZE);
    const token = await stoa.rtcTokens.mint(id, { participantIdentity, permissions: { publish: true } });
    return { page, port: await page.evaluate(joinBench, token) };
  };
  const sender = await open("sender");
  const viewers = await Promise.all(VIEWERS_KBITS.map((kbits) => open(`viewer-${kbits}`)));
  const rateKbitOfPort = Object.fromEntries(viewers.map(({ port }, at) => [port, VIEWERS_KBITS[at] ?? 0]));
  link.set({ down: { delayMs: 20, bufferMs: 500, rateKbitOfPort }, up: { delayMs: 20 } });
  const all = [sender, ...viewers].map(({ page }) => page);
  await sender.page.evaluate(publishBench, {
    codec: way.codec,
    framesPerSecond: FRAMES_PER_SECOND,
    encodings: encodingsOf(way),
  });
  await Bun.sleep(SETTLING_MS);
  // Chromium bounds the smaller streams by their size; what they leave is the largest one's.
  const [from, to] = [await sender.page.evaluate(countVideo), await countAfter(sender.page, TUNING_MS)];
  await sender.page.evaluate(raiseTop, Math.max(0, UPLINK_BPS - changeOf(from, to).kbits * 1_000));
  await Bun.sleep(TUNING_MS);
  const count = () => Promise.all(all.map((page) => page.evaluate(countVideo)));
  const grab = (isGrabbing: boolean) => Promise.all(all.map((page) => page.evaluate(grabFrames, isGrabbing)));
  await grab(true);
  const cpuBefore = cpuMicrosOfTree(process.pid);
  const before = await count();
  await Bun.sleep(MEASURED_MS);
  const after = await count();
  const cores = (cpuMicrosOfTree(process.pid) - cpuBefore) / 1_000 / MEASURED_MS;
  await grab(false);
  await sender.page.evaluate(() => window.bench.stop?.());
  const changes = before.map((first, at) => changeOf(first, after[at] as Counted));
  const [sent, ...received] = changes;
  const seen: Compared[] = [];
  for (const { page } of viewers) seen.push(await page.evaluate(compareFrames));
  for (const page of all) await page.context().close();
  return {
    ...way,
    cores,
    sent,
    viewers: received.map((figures, at) => {
      const frames = seen[at] ?? [];
      const ssims = frames.map(({ ssim }) => ssim).filter((ssim) => !Number.isNaN(ssim));
      const sizes = Object.groupBy(frames, ({ size }) => size);
      const [size = "none"] = Object.keys(sizes).sort((a, b) => (sizes[b]?.length ?? 0) - (sizes[a]?.length ?? 0));
      const ssim = ssims.reduce((sum, one) => sum + one, 0) / ssims.length;
      return {
        limit: VIEWERS_KBITS[at],
        ...figures,
        size,
        ssim,
        lowestSsim: Math.min(...ssims),
        compared: ssims.length,
      };
    }),
  };
}

async function countAfter(page: Page, ms: number): Promise<Counted> {
  await Bun.sleep(ms);
  return page.evaluate(countVideo);
}

function changeOf(before: Counted, after: Counted) {
  const seconds = (after.atMs - before.atMs) / 1_000;
  return {
    kbits: ((after.bytes - before.bytes) * 8) / 1_000 / seconds,
    fps: (after.frames - before.frames) / seconds,
    freezes: after.freezes - before.freezes,
    frozenMs: after.frozenMs - before.frozenMs,
    keyframeRequests: after.keyframeRequests - before.keyframeRequests,
  };
}

const outcomes: Awaited<ReturnType<typeof measure>>[] = [];
try {
  for (const way of ways) {
    const outcome = await measure(way);
    outcomes.push(outcome);
    console.log(JSON.stringify(outcome));
  }
} finally {
  await browser.close();
  child.kill("SIGKILL");
  await child.exited;
  await link.close();
  await site.stop(true);
  await lan.close();
  rmSync(work, { recursive: true, force: true });
}
const figures: Measured[] = outcomes.flatMap(({ name, sent, viewers }) => [
  { what: `${name}: sent`, value: sent?.kbits ?? Number.NaN, unit: "kbit/s" },
  ...viewers.flatMap(({ limit, kbits, size, fps, ssim, freezes }) => {
    const who = `${name}, viewer of ${limit} kbit/s`;
    return [
      { what: `${who}: received, in ${size}`, value: kbits, unit: "kbit/s", goal: { atMost: limit ?? 0 } },
      { what: `${who}: frames`, value: fps, unit: "/s", goal: { atLeast: FRAMES_PER_SECOND * 0.8 } },
      { what: `${who}: SSIM`, value: ssim, unit: "" },
      { what: `${who}: freezes`, value: freezes, unit: "" },
    ];
  }),
]);
report("svc", figures, { uplinkBps: UPLINK_BPS, size: SIZE, framesPerSecond: FRAMES_PER_SECOND, outcomes });
process.exit();
