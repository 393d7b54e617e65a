import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import type { EmbeddedMedia } from "../../../src/media/embedded.ts";
import { type Bridge, join, launchBrowser, startBridge, startMedia } from "./harness.ts";

describe("a room of real browsers", () => {
  let media: EmbeddedMedia;
  let bridge: Bridge;
  let browser: Browser;

  beforeAll(async () => {
    media = await startMedia();
    bridge = await startBridge(media);
    browser = await launchBrowser();
  }, 30_000);

  afterAll(async () => {
    await browser?.close();
    await bridge?.stop();
    await media?.close();
  });

  test("two participants see and hear each other", async () => {
    const pages = await Promise.all(["ann", "ben"].map((identity) => join(browser, bridge, identity)));
    for (const page of pages) {
      await page.evaluate(async () => {
        await window.page.publish({ audio: true, video: { width: 640, height: 360 } });
        window.page.receive(2, 2);
        await window.page.negotiate();
        await window.page.connected();
      });
    }
    for (const [i, page] of pages.entries()) {
      const other = ["ben", "ann"][i] ?? "";
      const seen = await page.evaluate(async (identity) => {
        const audio = await window.page.event(
          "trackPublished",
          (e) => e.identity === identity && e.track.kind === "audio",
        );
        const video = await window.page.event(
          "trackPublished",
          (e) => e.identity === identity && e.track.kind === "video",
        );
        const audioMid = await window.page.subscribe(audio.track.id, "audio");
        const videoMid = await window.page.subscribe(video.track.id, "video");
        const frames = await window.page.decoding(videoMid, 20);
        const sound = await window.page.until(async () => {
          const stats = await window.page.inbound(audioMid);
          return (stats.totalAudioEnergy ?? 0) > 0 ? stats : undefined;
        }, "sound");
        return {
          frames: frames.framesDecoded,
          height: frames.frameHeight,
          energy: sound.totalAudioEnergy,
          track: video.track,
        };
      }, other);
      expect(seen.frames).toBeGreaterThanOrEqual(20);
      expect(seen.height).toBe(360);
      expect(seen.energy).toBeGreaterThan(0);
      expect(seen.track).toMatchObject({
        kind: "video",
        source: "camera",
        muted: false,
        simulcast: false,
        codec: "VP8",
      });
    }
    await Promise.all(pages.map((page) => page.close()));
  }, 60_000);
});
