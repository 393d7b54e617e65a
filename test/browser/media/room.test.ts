import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import type { EmbeddedMedia } from "../../../src/media/embedded.ts";
import { type Bridge, join, launchBrowser, startBridge, startMedia } from "./harness.ts";

/** Subscribes to everything the others publish, until the given number of both kinds runs. */
function watchOthers(page: Page, identity: string, others: number) {
  return page.evaluate(
    async ([me, count]) => {
      const { page: client } = window;
      const seen: { identity: string; frames: number; height: number; energy: number; frozen: number }[] = [];
      for (let i = 0; i < count; i++) {
        const known = new Set(seen.map((other) => other.identity));
        const isNew = (e: { identity: string; track: { kind: string } }, kind: string) =>
          e.identity !== me && !known.has(e.identity) && e.track.kind === kind;
        const video = await client.event("trackPublished", (e) => isNew(e, "video"));
        const audio = await client.event(
          "trackPublished",
          (e) => e.identity === video.identity && e.track.kind === "audio",
        );
        const audioMid = await client.subscribe(audio.track.id, "audio");
        const videoMid = await client.subscribe(video.track.id, "video");
        const frames = await client.decoding(videoMid, 20);
        const sound = await client.until(async () => {
          const stats = await client.inbound(audioMid);
          return (stats.totalAudioEnergy ?? 0) > 0 ? stats : undefined;
        }, "sound");
        seen.push({
          identity: video.identity,
          frames: frames.framesDecoded ?? 0,
          height: frames.frameHeight ?? 0,
          energy: sound.totalAudioEnergy ?? 0,
          frozen: frames.totalFreezesDuration ?? 0,
        });
      }
      return seen;
    },
    [identity, others] as const,
  );
}

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

  test("three participants see and hear each other", async () => {
    const identities = ["ann", "ben", "cat"];
    const pages = await Promise.all(identities.map((identity) => join(browser, bridge, identity, "three")));
    await Promise.all(
      pages.map((page) =>
        page.evaluate(async () => {
          await window.page.publish({ audio: true, video: { width: 320, height: 180 } });
          window.page.receive(2, 2);
          await window.page.negotiate();
          await window.page.connected();
        }),
      ),
    );
    const seen = await Promise.all(pages.map((page, i) => watchOthers(page, identities[i] ?? "", 2)));
    for (const [i, others] of seen.entries()) {
      expect(others.map(({ identity }) => identity).sort()).toEqual(identities.filter((_, k) => k !== i));
      for (const other of others) {
        expect(other.frames).toBeGreaterThanOrEqual(20);
        expect(other.height).toBe(180);
        expect(other.energy).toBeGreaterThan(0);
      }
    }
    const speakers = bridge.events.find((event) => event.type === "speakersChanged" && event.speakers.length > 0);
    expect(speakers).toBeDefined();
    const connected = bridge.events.filter((event) => event.type === "participantConnected");
    console.log(`ICE and DTLS took ${connected.map((event) => event.connectMs).join(", ")} ms`);
    await Promise.all(pages.map((page) => page.close()));
  }, 60_000);

  test("lips and sound stay together: both clocks of a publisher reach the viewer", async () => {
    const [publisher, viewer] = await Promise.all(
      ["pub", "view"].map((identity) => join(browser, bridge, identity, "sync")),
    );
    if (!publisher || !viewer) throw new Error("no pages");
    await publisher.evaluate(async () => {
      await window.page.publish({ audio: true, video: { width: 320, height: 180 } });
      await window.page.negotiate();
      await window.page.connected();
    });
    await viewer.evaluate(async () => {
      window.page.receive(1, 1);
      await window.page.negotiate();
      await window.page.connected();
    });
    await watchOthers(viewer, "view", 1);
    // On a busy machine it takes them a while to settle; a wrong clock keeps them apart for good.
    const apartMs = await viewer.evaluate(() =>
      window.page.until(
        async () => {
          const [audio, video] = await Promise.all(
            [...window.page.subscribed.keys()].map((mid) => window.page.inbound(mid)),
          );
          const difference =
            (audio?.estimatedPlayoutTimestamp ?? Number.NaN) - (video?.estimatedPlayoutTimestamp ?? Number.NaN);
          return Math.abs(difference) < 150 ? Math.abs(difference) : undefined;
        },
        "sound and picture in step",
        20_000,
      ),
    );
    console.log(`sound and picture ${Math.round(apartMs)} ms apart`);
    await Promise.all([publisher.close(), viewer.close()]);
  }, 60_000);

  for (const codec of ["VP8", "H264", "VP9", "AV1"]) {
    test(`${codec} is carried`, async () => {
      const room = `codec-${codec}`;
      const [publisher, viewer] = await Promise.all(
        ["pub", "view"].map((identity) => join(browser, bridge, identity, room)),
      );
      if (!publisher || !viewer) throw new Error("no pages");
      await publisher.evaluate(async (name) => {
        await window.page.publish({ video: { width: 320, height: 180, codec: name } });
        await window.page.negotiate();
        await window.page.connected();
      }, codec);
      const decoded = await viewer.evaluate(async () => {
        window.page.receive(0, 1);
        await window.page.negotiate();
        await window.page.connected();
        const { track } = await window.page.event("trackPublished");
        const mid = await window.page.subscribe(track.id, "video");
        const { framesDecoded, codecId } = await window.page.decoding(mid, 10);
        const stats = await window.page.pc.getStats();
        return { track, framesDecoded, mimeType: stats.get(String(codecId))?.mimeType };
      });
      expect(decoded.track.codec).toBe(codec);
      expect(decoded.mimeType).toBe(`video/${codec}`);
      await Promise.all([publisher.close(), viewer.close()]);
    }, 40_000);
  }
});
