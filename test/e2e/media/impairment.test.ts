// runs: alone

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import type { ImpairmentOptions } from "../../../src/kernel/net/impairment.ts";
import { openChromium } from "../../harness/browsers.ts";
import { type ImpairedNode, portOf, startImpairedNode } from "../../sfu/impaired-node.ts";
import { describeFlow, type Flow, frozenMs, stalledMs } from "./flow.ts";
import { type Bridge, join, startBridge } from "./harness.ts";

const FRAME_RATE = 15;
const WATCH_MS = 5_000;
const MAX_FROZEN_MS = 1_000;
/** The fraction of the full layer's bitrate that the link has: too little for it, enough for the lowest layer, a quarter. */
const NARROW_SHARE = 0.6;
/** The length of the link's queue in time; a narrower link queues fewer bytes. */
const QUEUE_MS = 530;
/** The goal is three seconds and mostly it takes one; five seconds were seen once, for an unknown reason. */
const LOWER_WITHIN_MS = 10_000;
/** Probes run every six seconds at most, in one or two steps, and may be inconclusive on a busy machine. */
const BACK_WITHIN_MS = 20_000;

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
      window.page.receive();
      await window.page.negotiate();
      await window.page.connected();
      const { track } = await window.page.event("trackPublished");
      const section = await window.page.subscribe(track.id);
      await window.page.decoding(section, 5);
      return { mid: section, trackId: track.id };
    });

  const figures = (page: Page) =>
    page.evaluate(async (m) => {
      const { frameHeight = 0, nackCount = 0, pliCount = 0 } = await window.page.inbound(m);
      return { frameHeight, nackCount, pliCount };
    }, mid);

  /** Measures what all three pages receive and send during `during`. */
  const observe = async (during: () => Promise<unknown>): Promise<{ sent: Flow; seen: Flow; others: Flow }> => {
    const pages = [publisher, viewer, other] as const;
    await Promise.all(pages.map((page) => page.evaluate((m) => window.page.watch(m), page === publisher ? null : mid)));
    await during();
    const [sent, seen, others] = await Promise.all(
      pages.map((page) => page.evaluate(() => window.page.stopWatching())),
    );
    if (!sent || !seen || !others) throw new Error("no flow was measured");
    return { sent, seen, others };
  };

  /** Resolves with the time until the video has such a height. */
  const height = (page: Page, wanted: "full" | "lower", timeoutMs: number) =>
    page.evaluate(
      async ([m, which, timeout]) => {
        const started = performance.now();
        await window.until(
          async () => {
            const { frameHeight = 0 } = await window.page.inbound(m);
            return (which === "full" ? frameHeight === 540 : frameHeight > 0 && frameHeight < 540) || undefined;
          },
          `a video of ${which} height`,
          timeout,
        );
        return Math.round(performance.now() - started);
      },
      [mid, wanted, timeoutMs] as const,
    );

  /** The bitrate that a viewer receives, measured over three seconds. */
  const rate = (page: Page) =>
    page.evaluate(async (m) => {
      const { bytesReceived: before = 0 } = await window.page.inbound(m);
      await new Promise((wake) => setTimeout(wake, 3_000));
      const { bytesReceived: after = 0 } = await window.page.inbound(m);
      return ((after - before) * 8) / 3;
    }, mid);

  beforeAll(async () => {
    node = await startImpairedNode(7);
    bridge = await startBridge(node);
    browser = await openChromium();
    publisher = await join(browser, bridge, "publisher");
    await publisher.evaluate(async (frameRate) => {
      await window.page.publish({ width: 960, height: 540, layers: 3, frameRate });
      await window.page.negotiate();
      await window.page.connected();
    }, FRAME_RATE);
    viewer = await join(browser, bridge, "viewer");
    other = await join(browser, bridge, "other");
    ({ mid, trackId } = await watch(viewer));
    await watch(other);
    await height(viewer, "full", 40_000);
    await height(other, "full", 40_000);
  }, 180_000);

  afterAll(async () => {
    await browser?.close();
    await bridge?.stop();
    await node?.close();
  });

  test("a viewer on a narrow link gets a lower layer and later the higher one again, and others are unaffected", async () => {
    // The limit depends on the measured bitrate, because some machines encode little and a busy one stops encoding the
    // full height for a while.
    let bandwidth: number;
    do {
      await height(viewer, "full", 60_000);
      bandwidth = Math.min(300_000, NARROW_SHARE * (await rate(viewer)));
    } while ((await figures(viewer)).frameHeight < 540);
    const constrainedAt = bridge.events.length;
    let downMs = 0;
    const down = await observe(async () => {
      node.impairDown({ bandwidthBitsPerSecond: bandwidth, queueBytes: (bandwidth * QUEUE_MS) / 8_000 }, [
        await portOf(node, "room", "viewer"),
      ]);
      downMs = await height(viewer, "lower", 30_000);
    });
    const narrow = await observe(() => Bun.sleep(WATCH_MS));
    const { frameHeight } = await figures(viewer);
    let upMs = 0;
    const up = await observe(async () => {
      node.impairDown({});
      upMs = await height(viewer, "full", 60_000);
    });
    console.log(
      `${Math.round(bandwidth / 1_000)} kbit/s: ${frameHeight} lines, the first lower ones after ${downMs} ms (goal 3,000), full height again after ${upMs} ms (goal 10,000), the machine stood still for ${stalledMs(down.seen, down.sent)} and ${stalledMs(up.seen, up.sent)} ms of it; meanwhile ${describeFlow(narrow.seen, narrow.sent)}`,
    );
    expect(downMs).toBeLessThan(LOWER_WITHIN_MS + stalledMs(down.seen, down.sent));
    expect(upMs).toBeLessThan(BACK_WITHIN_MS + stalledMs(up.seen, up.sent));
    expect(narrow.seen.frames).toBeGreaterThan(FRAME_RATE);
    expect(frozenMs(narrow.seen, narrow.sent)).toBeLessThan(MAX_FROZEN_MS);
    for (const { others, sent } of [down, narrow, up]) expect(frozenMs(others, sent)).toBeLessThan(MAX_FROZEN_MS);
    const changes = bridge.events.slice(constrainedAt).filter((event) => event.type === "subscriptionChanged");
    expect(changes).toContainEqual(expect.objectContaining({ identity: "viewer", trackId, reason: "bandwidth" }));
    expect(changes).not.toContainEqual(expect.objectContaining({ identity: "other", reason: "bandwidth" }));
  }, 150_000);

  const CASES: [string, ImpairmentOptions][] = [
    ["5 % loss", { lossRatio: 0.05 }],
    ["bursts of 20 % loss for 200 ms", { burst: { periodMs: 2_000, lengthMs: 200, lossRatio: 0.2 } }],
    ["reordering", { reorderRatio: 0.1, reorderMs: 15 }],
    ["duplication", { duplicateRatio: 0.1 }],
    ["30 ms with 100 ms of jitter", { delayMs: 30, jitterMs: 100 }],
  ];

  for (const [name, options] of CASES) {
    test(`decoding continues with ${name} in both directions`, async () => {
      const before = await figures(viewer);
      const { sent, seen, others } = await observe(async () => {
        node.impairDown(options, [await portOf(node, "room", "viewer")]);
        node.impairUp(options, [await portOf(node, "room", "publisher")]);
        await Bun.sleep(WATCH_MS);
      });
      node.impairDown({});
      node.impairUp({});
      const { frameHeight, nackCount, pliCount } = await figures(viewer);
      console.log(
        `${name}: ${describeFlow(seen, sent)}; ${frameHeight} lines, ${nackCount - before.nackCount} NACKs, ${pliCount - before.pliCount} PLIs`,
      );
      expect(seen.frames).toBeGreaterThan(FRAME_RATE);
      expect(frozenMs(seen, sent)).toBeLessThan(MAX_FROZEN_MS);
      expect(frozenMs(others, sent)).toBeLessThan(MAX_FROZEN_MS);
    }, 180_000);
  }
});
