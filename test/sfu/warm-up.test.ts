// The call that a fresh worker plays to itself has to be like others, or the wrong code is compiled.

import { expect, test } from "bun:test";
import { typescriptPath } from "../../src/sfu/fast-path/fast-path.ts";
import { openNativePath } from "../../src/sfu/fast-path/native-path.ts";
import { CALLS, WarmUpCall, warmUp } from "../../src/sfu/warm-up/warm-up.ts";
import type { WorkerSettings } from "../../src/sfu/worker-protocol.ts";
import { nativeLibraryPath } from "./fast-path/both-paths.ts";

const SETTINGS: WorkerSettings = {
  hostname: "127.0.0.1",
  port: 0,
  announce: ["127.0.0.1"],
  tcp: true,
  srtpProfiles: ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"],
};
/**
 * The number of frames until all viewers get their layer. Each of three layers begins with a keyframe, and the second keyframe is
 * frame 60.
 */
const FIRST_FRAMES = { one: 5, three: 62 };
const FRAMES = 70;
/** Ten packets of video and two of audio, for four viewers. */
const COPIES_A_FRAME = 48;
const PACKETS_A_FRAME = 12;
/** The event loop receives every fourth frame, and of three layers the middle one often has no viewer. */
const NATIVE_SHARE = { one: 1 / 2, three: 1 / 4 };
/** A packet of video for each viewer, and two of audio. */
const LEAST_COPIES_A_FRAME = 12;
const [ONE = [], THREE = []] = CALLS;

async function play(nativeLibrary: string | undefined, layers: "one" | "three"): Promise<number> {
  const firstFrames = FIRST_FRAMES[layers];
  const faults: unknown[] = [];
  const output = { onFault: (error: unknown) => faults.push(error) };
  const path = nativeLibrary ? openNativePath(nativeLibrary) : typescriptPath;
  let forwarded = 0;
  const { receiveLoop } = path;
  if (receiveLoop) {
    const wait = receiveLoop.wait.bind(receiveLoop);
    receiveLoop.wait = (terms) => {
      wait(terms);
      forwarded += receiveLoop.received - receiveLoop.setAside;
    };
  }
  const call = await WarmUpCall.start(SETTINGS, output, layers === "one" ? ONE : THREE, path);
  for (let frame = 0; frame < firstFrames; frame++) await call.play(frame);
  const media = () => call.viewers.reduce((sum, viewer) => sum + viewer.media, 0);
  const before = media();
  forwarded = 0;
  for (let frame = 0; frame < FRAMES; frame++) await call.play(firstFrames + frame);
  call.close();
  expect(faults).toEqual([]);
  if (nativeLibrary) expect(forwarded).toBeGreaterThan(FRAMES * PACKETS_A_FRAME * NATIVE_SHARE[layers]);
  // Every peer's first check, and one with each frame.
  const answers = [call.publisher, ...call.viewers].reduce((sum, peer) => sum + peer.answers, 0);
  expect(answers).toBe(5 + firstFrames + FRAMES);
  // The publisher gets reports, too.
  expect(call.publisher.control).toBeGreaterThan(FRAMES / 2);
  return media() - before;
}

for (const nativeLibrary of [undefined, await nativeLibraryPath()]) {
  const how = nativeLibrary ? "natively" : "in TypeScript";

  test(`the viewers of a warm-up get all packets, ${how}`, async () => {
    const media = await play(nativeLibrary, "one");
    expect(media).toBe(FRAMES * COPIES_A_FRAME);
  });

  test(`the viewers of a warm-up get the layer of their subscription, ${how}`, async () => {
    const media = await play(nativeLibrary, "three");
    expect(media).toBeGreaterThanOrEqual(FRAMES * LEAST_COPIES_A_FRAME);
    expect(media).toBeLessThan(FRAMES * COPIES_A_FRAME);
  });
}

test("a warm-up ends when its worker is closed", async () => {
  let asked = 0;
  const faults: unknown[] = [];
  await warmUp(SETTINGS, { onFault: (error) => faults.push(error) }, () => ++asked > 3);
  expect(asked).toBe(4);
  expect(faults).toEqual([]);
});
