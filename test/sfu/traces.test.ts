// needs: gcc libc6-dev libssl-dev
// The same traces through each of the paths: a publisher's packets and reports, with losses, repetitions and packets out of order,
// while viewers switch layers, pause, change their address and request lost packets. Every packet that leaves, and every report, is
// the same.

import { afterAll, expect, test } from "bun:test";
import { typescriptPath } from "../../src/sfu/fast-path/fast-path.ts";
import { openNativePath } from "../../src/sfu/fast-path/native-path.ts";
import { nativeLibraryPath } from "./fast-path/both-paths.ts";
import { PlayedTrace } from "./played-trace.ts";

const nativePath = openNativePath(await nativeLibraryPath());
afterAll(() => nativePath.close());

async function expectSame(expected: PlayedTrace, actual: PlayedTrace): Promise<void> {
  for (const played of [expected, actual]) await played.play();
  expect([...actual.sent.keys()].sort()).toEqual([...expected.sent.keys()].sort());
  for (const [port, packets] of expected.sent) expect(actual.sent.get(port)).toEqual(packets);
  expect(actual.reports).toEqual(expected.reports);
  expect([...expected.sent.values()].flat().length).toBeGreaterThan(2_000);
}

for (const codec of ["VP8", "H264"] as const) {
  for (const seed of [1, 2, 3])
    test(`${codec}, trace ${seed}: both paths send the same packets and reports`, async () => {
      const expected = await PlayedTrace.open(typescriptPath, seed, codec);
      const actual = await PlayedTrace.open(nativePath, seed, codec);
      await expectSame(expected, actual);
      expect(actual.sentToGroups).toBeGreaterThan(1_000);
      expect(actual.forwardedNatively).toBe(0);
    }, 60_000);

  test(`${codec}: the native receive loop sends the same packets and reports`, async () => {
    const looping = openNativePath(await nativeLibraryPath());
    const expected = await PlayedTrace.open(typescriptPath, 4, codec);
    const actual = await PlayedTrace.open(looping, 4, codec, true);
    await expectSame(expected, actual);
    expect(actual.forwardedNatively).toBeGreaterThan(1_500);
    looping.close();
  }, 60_000);
}
