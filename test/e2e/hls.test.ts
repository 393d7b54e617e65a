// browser: shell
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { VideoCodec } from "../../web/sdk/room/peer/codecs.ts";
import { hlsDelayMs, hlsPlayer, playHls, publishBrightness } from "./hls-page.ts";
import { joinRoom } from "./sdk/page-api.ts";
import { openStage, type SitePage, type Stage } from "./sdk/stage.ts";

const HLS_JS = join(import.meta.dir, "../../node_modules/hls.js/dist/hls.min.js");

let stage: Stage;
beforeAll(async () => {
  stage = await openStage({ HLS_TRANSCODE: "true" });
}, 180_000);
afterAll(async () => {
  await stage?.close();
});

/** Opens a page that plays a live stream in this codec and resolves after it has played for `seconds`. */
async function watch(codec: VideoCodec, seconds: number) {
  const { stoa } = stage;
  const stream = await stoa.liveStreams.create({ title: codec, hostIdentity: "ada", record: true });
  const host = await stage.page();
  await joinRoom(host, await stage.rtc(stream.roomId, "ada"));
  await host.evaluate(publishBrightness, codec);
  await stoa.liveStreams.start(stream.id);
  const viewer = await stoa.liveStreams.mintViewerToken(stream.id, { identity: "grace" });
  const url = `${stage.server.url}/v1/live-streams/${stream.id}/hls/index.m3u8?token=${viewer.rtc.token}`;
  const list = await opened(url);
  const page = await stage.page();
  await page.addScriptTag({ path: HLS_JS });
  await page.evaluate(playHls, url);
  await page.waitForFunction(
    (wanted) => (document.querySelector("video") as HTMLVideoElement).currentTime > wanted,
    seconds,
    { timeout: 120_000 },
  );
  return { stream, list, host, page };
}

/** The multivariant playlist, as soon as it has a video rendition. */
async function opened(url: string): Promise<string> {
  for (;;) {
    const answer = await fetch(url);
    const text = await answer.text();
    if (answer.ok && text.includes("RESOLUTION=")) return text;
    if (!answer.ok) expect((JSON.parse(text) as { code: string }).code).toBe("SVC_HLS_UNAVAILABLE");
    await Bun.sleep(250);
  }
}

const close = async (...pages: SitePage[]) => {
  for (const page of pages) await page.context().close();
};

test("[18] hls.js plays the audio and video of a live stream close to the live edge and seeks to its beginning", async () => {
  const { stream, host, page } = await watch("H264", 6);
  const delays: number[] = [];
  for (let look = 0; look < 5; look++) {
    delays.push(await page.evaluate(hlsDelayMs));
    await Bun.sleep(300);
  }
  const { latency, ...player } = await page.evaluate(hlsPlayer);
  console.log(`HLS delay ${delays.join(" ")} ms, by hls.js ${latency.toFixed(1)} s`);
  expect([player.errors, player.width]).toEqual([[], 320]);
  expect(player.soundBytes).toBeGreaterThan(0);

  // The stream can be played from its beginning.
  await page.evaluate(() => {
    const made = document.querySelector("video") as HTMLVideoElement;
    made.currentTime = made.seekable.start(0) + 0.1;
  });
  await page.waitForFunction(
    () => {
      const made = document.querySelector("video") as HTMLVideoElement;
      return !made.seeking && made.currentTime > 0.5 && made.currentTime < made.seekable.end(0) - 4;
    },
    undefined,
    { timeout: 60_000 },
  );
  expect((await page.evaluate(hlsPlayer)).errors).toEqual([]);
  await stage.stoa.liveStreams.end(stream.id);
  await page.waitForFunction(() => Number.isFinite((document.querySelector("video") as HTMLVideoElement).duration));
  expect((await page.evaluate(hlsPlayer)).errors).toEqual([]);
  await close(host, page);
}, 180_000);

test.each([
  ["AV1 as it is sent", "AV1", /CODECS="av01\./],
  ["VP8 transcoded, with HLS_TRANSCODE", "VP8", /CODECS="avc1\./],
] as const)(
  "[18] hls.js plays %s",
  async (_, codec, expected) => {
    const { stream, list, host, page } = await watch(codec, 3);
    expect(list).toMatch(expected);
    const player = await page.evaluate(hlsPlayer);
    expect([player.errors, player.width]).toEqual([[], 320]);
    expect(player.soundBytes).toBeGreaterThan(0);
    await stage.stoa.liveStreams.end(stream.id);
    await close(host, page);
  },
  180_000,
);
