import { expect } from "bun:test";
import type { Call, Scene } from "../rtc-harness.ts";

/** A track stops and resumes when its viewer pauses it or its publisher mutes it. */
export async function pausesAndMutes({ ann, ben }: Call): Promise<void> {
  const { mid, trackId } = await ben.page.evaluate(() => window.rtc.watchTrack("ann", "video"));
  const stops = () => ben.page.evaluate((m) => window.rtc.silent(m), mid);
  const comesBack = () => ben.page.evaluate((m) => window.rtc.moreFrames(m, 5), mid);
  const pause = (paused: boolean) =>
    ben.page.evaluate(([id, wish]) => window.rtc.wish(id, { paused: wish }), [trackId, paused] as const);
  const mute = async (muted: boolean) => {
    const since = await ben.page.evaluate(() => window.rtc.pushes.length);
    await ann.page.evaluate((wish) => {
      const trackId = window.rtc.trackId("camera");
      return window.rtc.ask("track.mute", { trackId, muted: wish });
    }, muted);
    const type = muted ? "track.muted" : "track.unmuted";
    await ben.page.evaluate(([t, id, n]) => window.rtc.push(t, { identity: "ann", trackId: id }, n), [
      type,
      trackId,
      since,
    ] as const);
  };
  await pause(true);
  await stops();
  await pause(false);
  await comesBack();
  await mute(true);
  await stops();
  await mute(false);
  await comesBack();
}

/** A track that the server mutes is received by no one, and all participants are notified. */
export async function isMutedByTheServer({ api }: Scene, { roomId, ann, ben, cas }: Call): Promise<void> {
  const trackId = await ann.page.evaluate(() => window.rtc.trackId("microphone"));
  const path = `/v1/rooms/${roomId}/participants/ann/tracks/${trackId}/mute`;
  expect((await api.call("POST", path, { muted: true })).status).toBeLessThan(300);
  for (const { page } of [ben, cas]) {
    await page.evaluate(async (id) => {
      await window.rtc.push("track.muted", { identity: "ann", trackId: id });
      await window.rtc.silent((await window.rtc.watch("ann")).audio);
    }, trackId);
  }
}
