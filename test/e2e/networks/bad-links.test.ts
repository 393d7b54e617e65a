import { afterAll, beforeAll, expect, test } from "bun:test";
import { type NetworkCall, openNetworkCall, type Viewer } from "./call.ts";
import type { Condition } from "./link.ts";

const PATIENCE_MS = 60_000;
const NARROW: Condition = { rateKbit: 300, bufferMs: 10_000, delayMs: 20 };
const WIDE: Condition = { rateKbit: 5_000, bufferMs: 1_000, delayMs: 20 };
const UP: Condition = { delayMs: 20 };

let call: NetworkCall;
let viewer: Viewer;

beforeAll(async () => {
  call = await openNetworkCall();
}, PATIENCE_MS * 2);

afterAll(() => call?.close(), PATIENCE_MS);

/** Resolves when this many more frames have been shown. */
async function moreFrames(count: number): Promise<void> {
  const { frames: before } = await viewer.seen();
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await Bun.sleep(100))
    if ((await viewer.seen()).frames >= before + count) return;
  throw new Error(`no ${count} frames within ${PATIENCE_MS} ms`);
}

/** The kbit that pass the link while this many frames are shown, and how many packets did not fit into its queue. */
async function passing(frames: number): Promise<{ kbit: number; dropped: number }> {
  await call.link.report();
  await moreFrames(frames);
  const { bytes, seconds, dropped } = (await call.link.report()).down;
  return { kbit: (bytes * 8) / seconds / 1_000, dropped };
}

test(
  "a voice and three videos at five times the link's bandwidth: some video is shown, and no queue overflows",
  async () => {
    call.link.set({ down: NARROW, up: UP });
    viewer = await call.watch();
    await moreFrames(30);
    expect((await passing(60)).dropped).toBe(0);
  },
  PATIENCE_MS * 3,
);

test(
  "when the link becomes wide, more arrives than the narrow one could carry",
  async () => {
    call.link.set({ down: WIDE, up: UP });
    const end = Date.now() + PATIENCE_MS;
    let most = 0;
    while (most < 350 && Date.now() < end) most = Math.max(most, (await passing(30)).kbit);
    expect(most).toBeGreaterThan(350);
  },
  PATIENCE_MS * 2,
);

test(
  "the video continues after a change of address and after a silence, and no participant leaves",
  async () => {
    await call.link.move();
    await moreFrames(30);
    call.link.set({ down: { silent: true }, up: { silent: true } });
    await Bun.sleep(3_000);
    call.link.set({ down: WIDE, up: UP });
    await moreFrames(30);
    expect((await viewer.seen()).left).toEqual([]);
  },
  PATIENCE_MS * 3,
);
