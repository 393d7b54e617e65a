// What a fresh worker plays to itself: it has to be a call as others are, or the wrong code is compiled; and it is nobody's.

import { expect, test } from "bun:test";
import { CALLS, Rehearsal, rehearse } from "../../src/sfu/warm-up/warm-up.ts";
import type { WorkerSettings } from "../../src/sfu/worker-protocol.ts";
import { nativeLibraryPath } from "./packet-paths.ts";

const SETTINGS: WorkerSettings = {
  ...{ hostname: "127.0.0.1", port: 0, announce: ["127.0.0.1"], tcp: true },
  srtpProfiles: ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"],
};
/** While tracks are announced and viewers placed. Each of three sizes begins with a keyframe, the second of which is at 60. */
const FIRST_FRAMES = { one: 5, three: 62 };
const FRAMES = 70;
/** Ten packets of picture and two of sound, for four viewers. */
const COPIES_A_FRAME = 48;
const PACKETS_A_FRAME = 12;
/** At least. Of three sizes the one in the middle is often nobody's. */
const NATIVE_SHARE = { one: 1 / 2, three: 1 / 4 };
/** A packet of picture for each of them, and two of sound. */
const LEAST_COPIES_A_FRAME = 12;
const [ONE = [], THREE = []] = CALLS;

async function play(nativeLibrary: string | undefined, sizes: "one" | "three"): Promise<Rehearsal> {
  const firstFrames = FIRST_FRAMES[sizes];
  const faults: unknown[] = [];
  const output = { onFault: (error: unknown) => faults.push(error) };
  const call = await Rehearsal.begin({ ...SETTINGS, nativeLibrary }, output, sizes === "one" ? ONE : THREE);
  for (let frame = 0; frame < firstFrames; frame++) await call.play(frame);
  call.toViewers = 0;
  for (let frame = 0; frame < FRAMES; frame++) {
    await call.play(firstFrames + frame);
    // Somebody else's turn: nothing is on its way, and nobody gives up waiting for it.
    await Bun.sleep(1);
  }
  call.close();
  expect(faults).toEqual([]);
  // As in a call that goes on as usual: all but keyframes natively, and what comes after a stop of this machine.
  if (nativeLibrary) expect(call.forwarded).toBeGreaterThan(FRAMES * PACKETS_A_FRAME * NATIVE_SHARE[sizes]);
  else expect(call.forwarded).toBe(0);
  // Everybody's first check, and one with each frame.
  expect(call.answers).toBe(4 + firstFrames + FRAMES);
  // Reports on the way to the publisher, too.
  expect(call.toPublisher).toBeGreaterThan(FRAMES / 2);
  return call;
}

for (const nativeLibrary of [undefined, await nativeLibraryPath()]) {
  const how = nativeLibrary ? "natively" : "in TypeScript";

  test(`viewers of a rehearsal get all that is sent, ${how}`, async () => {
    const { toViewers } = await play(nativeLibrary, "one");
    expect(toViewers).toBe(FRAMES * COPIES_A_FRAME);
  });

  test(`of three sizes, viewers of a rehearsal get the one they want, ${how}`, async () => {
    const { toViewers } = await play(nativeLibrary, "three");
    expect(toViewers).toBeGreaterThanOrEqual(FRAMES * LEAST_COPIES_A_FRAME);
    expect(toViewers).toBeLessThan(FRAMES * COPIES_A_FRAME);
  });
}

test("a worker that is closed stops rehearsing", async () => {
  let asked = 0;
  const faults: unknown[] = [];
  await rehearse(SETTINGS, { onFault: (error) => faults.push(error) }, () => ++asked > 3);
  expect(asked).toBe(4);
  expect(faults).toEqual([]);
});
