// browser: shell
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { openChromium } from "../../harness/browsers.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { openStage, type Stage } from "./rtc-harness.ts";

const CODECS = ["VP8", "H264", "VP9", "AV1"];

describe("a publisher and a viewer", () => {
  let server: RealServer;
  let stage: Stage;
  let browser: Browser;

  beforeAll(async () => {
    server = await realServer();
    [stage, browser] = await Promise.all([openStage(server), openChromium()]);
  }, 180_000);

  afterAll(async () => {
    await browser?.close();
    await stage?.close();
    await server?.close();
  });

  /** Two pages that have joined a new room without media. */
  async function joined(): Promise<{ publisher: Page; viewer: Page }> {
    const roomId = await server.room();
    const [publisher, viewer] = await Promise.all(
      ["pub", "view"].map(async (identity) => {
        const [page, { token }] = await Promise.all([stage.page(browser), server.mint(roomId, identity)]);
        await page.evaluate(([url, credential]) => window.openRtc().join(url, credential), [
          stage.endpoint,
          token,
        ] as const);
        return page;
      }),
    );
    if (!publisher || !viewer) throw new Error("no pages");
    return { publisher, viewer };
  }

  test("a viewer can synchronize the audio and the video of a publisher", async () => {
    const { publisher, viewer } = await joined();
    await publisher.evaluate(async () => {
      await window.rtc.publish({ video: { width: 320, height: 180 } });
      await window.rtc.offer();
    });
    // On a busy machine they take a while to converge; with a wrong clock they never do.
    const apartMs = await viewer.evaluate(async () => {
      const { rtc } = window;
      rtc.receive(1);
      await rtc.offer();
      const { audio, video } = await rtc.watch("pub");
      await rtc.decoded(video, 20);
      const shownAt = async (mid: string) => (await rtc.inbound(mid)).estimatedPlayoutTimestamp ?? Number.NaN;
      return window.until(
        async () => {
          const difference = Math.abs((await shownAt(audio)) - (await shownAt(video)));
          return difference < 150 ? difference : undefined;
        },
        "audio and video in sync",
        20_000,
      );
    });
    console.log(`audio and video ${Math.round(apartMs)} ms apart`);
    await Promise.all([publisher.close(), viewer.close()]);
  }, 180_000);

  test(`${CODECS.join(", ")} work side by side`, async () => {
    const { publisher, viewer } = await joined();
    await publisher.evaluate(async (codecs) => {
      for (const codec of codecs) await window.rtc.publish({ audio: false, video: { width: 320, height: 180, codec } });
      await window.rtc.offer();
    }, CODECS);
    const decoded = await viewer.evaluate(async (count) => {
      const { rtc } = window;
      rtc.receive(count);
      await rtc.offer();
      await window.until(() => rtc.tracksOf("pub").length === count || undefined, "all tracks");
      return Promise.all(
        rtc.tracksOf("pub").map(async ({ id, codec }) => {
          const { codecId } = await rtc.decoded(await rtc.subscribe(id, "video"), 10);
          const stats = await rtc.pc.getStats();
          return [codec, stats.get(String(codecId))?.mimeType];
        }),
      );
    }, CODECS.length);
    expect(decoded.sort()).toEqual(CODECS.map((codec) => [codec, `video/${codec}`]).sort());
    await Promise.all([publisher.close(), viewer.close()]);
  }, 180_000);
});
