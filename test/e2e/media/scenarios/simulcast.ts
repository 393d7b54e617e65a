import { expect } from "bun:test";
import { stalledMs } from "../flow.ts";
import type { Call } from "../rtc-harness.ts";

const HEIGHTS = { low: 180, medium: 360, high: 720 };
const MAX_SWITCH_MS = 2_000;

/** Cas replaces the camera with one of three layers, and Ann watches. It waits until the encoder sends all layers. */
export async function publishesInLayers({ ann, cas }: Call): Promise<void> {
  // Encoding three layers may be the most that a machine can do.
  await ann.page.evaluate(() => window.rtc.unpublish("camera"));
  await cas.page.evaluate(async () => {
    const { rtc } = window;
    await rtc.unpublish("camera");
    await rtc.publishDrawn({ width: 1280, height: 720, layers: 3, frameRate: 10 });
    await rtc.offer();
    await window.until(
      async () => {
        const layers = (await rtc.outbound()).filter(({ rid }) => rid !== undefined);
        return (layers.length === 3 && layers.every(({ framesSent }) => Number(framesSent) > 5)) || undefined;
      },
      "all three layers",
      40_000,
    );
  });
}

/** A viewer switches to each requested layer within 2 s without a decoder error. */
export async function movesBetweenLayers({ ann }: Call): Promise<void> {
  const { trackId, tookMs, flow, changes, before, after } = await ann.page.evaluate(async (heights) => {
    const { rtc } = window;
    const { mid, trackId } = await rtc.watchTrack("cas", "video");
    const height = (wanted: number) =>
      window.until(async () => (await rtc.inbound(mid)).frameHeight === wanted || undefined, `${wanted} lines`);
    await rtc.wish(trackId, { layer: "low" });
    await height(heights.low);
    const before = await rtc.inbound(mid);
    const since = rtc.pushes.length;
    const stop = rtc.countFrames(mid);
    const tookMs: number[] = [];
    for (const layer of ["high", "medium", "low", "high"] as const) {
      const startedAt = performance.now();
      await rtc.wish(trackId, { layer });
      await height(heights[layer]);
      tookMs.push(Math.round(performance.now() - startedAt));
    }
    // A decoder with errors would request a keyframe after the switch.
    const after = await rtc.moreFrames(mid, 10);
    const changes = rtc.pushes.slice(since).filter(({ type }) => type === "subscription.changed");
    return { trackId, tookMs, flow: stop(), changes, before, after };
  }, HEIGHTS);
  const during = (figure: string) => (after[figure] ?? 0) - (before[figure] ?? 0);
  const reasons = changes.map(({ layer, reason }) => `${layer} (${reason})`).join(", ");
  console.log(
    `layer switches: ${tookMs.join(", ")} ms; ${reasons}; ${during("pliCount")} keyframe requests of the decoder`,
  );
  expect(changes.at(-1)).toMatchObject({ trackId, layer: "high" });
  expect(during("packetsLost")).toBe(0);
  expect(during("pliCount")).toBe(0);
  expect(Math.max(...tookMs)).toBeLessThan(MAX_SWITCH_MS + stalledMs(flow));
}

/** The height of a tile determines the layer; layers without viewers are not wanted, until they are needed again. */
export async function wantsTheLayersOfTheTile({ ann, cas }: Call): Promise<void> {
  const trackId = await cas.page.evaluate(() => window.rtc.trackId("camera"));
  const show = (maxHeight: number) =>
    ann.page.evaluate(([id, lines]) => window.rtc.wish(id, { layer: "auto", maxHeight: lines }), [
      trackId,
      maxHeight,
    ] as const);
  const wanted = (since: number, ...layers: string[]) =>
    cas.page.evaluate(([id, names, n]) => window.rtc.push("layers.wanted", { trackId: id, layers: names }, n), [
      trackId,
      layers,
      since,
    ] as const);
  const heard = () => cas.page.evaluate(() => window.rtc.pushes.length);
  const narrow = await heard();
  // The height is a ceiling with a tenth of tolerance: 360 lines fit.
  await show(330);
  await ann.page.evaluate(async (lines) => {
    const { mid } = await window.rtc.watchTrack("cas", "video");
    await window.until(
      async () => (await window.rtc.inbound(mid)).frameHeight === lines || undefined,
      `${lines} lines`,
    );
  }, HEIGHTS.medium);
  await wanted(narrow, "low", "medium");
  const wide = await heard();
  await show(HEIGHTS.high);
  await wanted(wide, "low", "medium", "high");
}
