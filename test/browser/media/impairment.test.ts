import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import type { ImpairmentOptions } from "../../../src/sfu/packet/impairment.ts";
import { type ImpairedNode, portOf, startImpairedNode } from "../../sfu/impaired-node.ts";
import { type Bridge, join, launchBrowser, startBridge } from "./harness.ts";

const FRAME_RATE = 15;
const FRAMES = 60;

describe("video over a bad network", () => {
  let node: ImpairedNode;
  let bridge: Bridge;
  let browser: Browser;
  let publisher: Page;
  let viewer: Page;
  let other: Page;
  let mid: string;
  let trackId: string;

  const watch = (page: Page) =>
    page.evaluate(async () => {
      window.page.receive(0, 1);
      await window.page.negotiate();
      await window.page.connected();
      const { track } = await window.page.event("trackPublished");
      const section = await window.page.subscribe(track.id, "video");
      await window.page.decoding(section, 5);
      return { mid: section, trackId: track.id };
    });

  const figures = (page: Page) =>
    page.evaluate(async (m) => {
      const {
        framesDecoded = 0,
        totalFreezesDuration = 0,
        frameHeight = 0,
        packetsLost = 0,
        nackCount = 0,
        pliCount = 0,
      } = await window.page.inbound(m);
      return { framesDecoded, totalFreezesDuration, frameHeight, packetsLost, nackCount, pliCount };
    }, mid);

  /** Waits for so many more frames; how long that took says how busy the machine is, that they come at all is the point. */
  const decode = async (page: Page, frames: number) => {
    const before = await figures(page);
    const started = performance.now();
    await page.evaluate(([m, wanted]) => window.page.decoding(m, wanted, 40_000), [
      mid,
      before.framesDecoded + frames,
    ] as const);
    const after = await figures(page);
    return {
      seconds: (performance.now() - started) / 1_000,
      frozenSeconds: after.totalFreezesDuration - before.totalFreezesDuration,
      nacks: after.nackCount - before.nackCount,
      plis: after.pliCount - before.pliCount,
    };
  };

  const height = (page: Page, wanted: (h: number) => boolean, timeoutMs: number) =>
    page.evaluate(
      async ([m, test, timeout]) => {
        const check = new Function("h", `return (${test})(h)`) as (h: number) => boolean;
        const started = performance.now();
        await window.page.until(
          async () => {
            const { frameHeight = 0 } = await window.page.inbound(m);
            return check(frameHeight) || undefined;
          },
          "another height",
          timeout,
        );
        return Math.round(performance.now() - started);
      },
      [mid, wanted.toString(), timeoutMs] as const,
    );

  beforeAll(async () => {
    node = await startImpairedNode(7);
    bridge = await startBridge(node);
    browser = await launchBrowser();
    publisher = await join(browser, bridge, "publisher");
    await publisher.evaluate(async (frameRate) => {
      await window.page.publish({ video: { width: 960, height: 540, layers: 3, frameRate } });
      await window.page.negotiate();
      await window.page.connected();
    }, FRAME_RATE);
    viewer = await join(browser, bridge, "viewer");
    other = await join(browser, bridge, "other");
    ({ mid, trackId } = await watch(viewer));
    await watch(other);
    await height(viewer, (h) => h === 540, 40_000);
    await height(other, (h) => h === 540, 40_000);
  }, 120_000);

  afterAll(async () => {
    await browser?.close();
    await bridge?.stop();
    await node?.close();
  });

  const CASES: [string, ImpairmentOptions][] = [
    ["5 % loss", { lossRatio: 0.05 }],
    ["bursts of 200 ms", { burst: { periodMs: 2_000, lengthMs: 200, lossRatio: 0.2 } }],
    ["reordering and duplication", { reorderRatio: 0.1, reorderMs: 15, duplicateRatio: 0.1 }],
    ["30 ms with 100 ms of jitter", { delayMs: 30, jitterMs: 100 }],
  ];

  for (const [name, options] of CASES) {
    test(`${name}, both ways: it keeps decoding`, async () => {
      node.impairDown(options, [await portOf(node, "room", "viewer")]);
      node.impairUp(options, [await portOf(node, "room", "publisher")]);
      await Bun.sleep(300);
      const seen = await decode(viewer, FRAMES);
      node.impairDown({});
      node.impairUp({});
      const ideal = FRAMES / FRAME_RATE;
      console.log(
        `${name}: ${FRAMES} frames in ${seen.seconds.toFixed(1)} s (${ideal.toFixed(1)} s undisturbed), ${seen.frozenSeconds.toFixed(2)} s frozen, ${seen.nacks} NACKs, ${seen.plis} PLIs`,
      );
      // A decoder that waits for keyframes shows one or two frames a second, if any.
      expect(seen.seconds).toBeLessThan(ideal * 5);
    }, 60_000);
  }

  test("300 kbit/s: a lower layer, the others untouched, and the higher one back", async () => {
    await height(viewer, (h) => h === 540, 30_000);
    node.impairDown({ bandwidthBitsPerSecond: 300_000, queueBytes: 20_000 }, [await portOf(node, "room", "viewer")]);
    const downMs = await height(viewer, (h) => h < 540, 30_000);
    const constrained = await decode(viewer, 30);
    expect((await figures(other)).frameHeight).toBe(540);
    node.impairDown({});
    const upMs = await height(viewer, (h) => h === 540, 45_000);
    console.log(
      `300 kbit/s: down after ${downMs} ms (goal 3,000), 30 frames in ${constrained.seconds.toFixed(1)} s meanwhile, up again after ${upMs} ms (goal 10,000)`,
    );
    expect(bridge.events).toContainEqual(
      expect.objectContaining({ type: "subscriptionChanged", identity: "viewer", trackId, reason: "bandwidth" }),
    );
    const others = bridge.events.filter((event) => event.type === "subscriptionChanged" && event.identity === "other");
    expect(others.at(-1)).toMatchObject({ layer: "high", paused: false });
  }, 150_000);
});
