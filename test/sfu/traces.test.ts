// needs: gcc libc6-dev libssl-dev
// The same traces through each of the paths: what a publisher sends and reports, with losses, repetitions and packets out of order,
// while viewers switch layers, pause, move and ask for what they miss. Every packet that leaves, and every report, is the same.

import { afterAll, expect, test } from "bun:test";
import { openNativePath } from "../../src/sfu/fast-path/native-path.ts";
import { typescriptPath } from "../../src/sfu/forwarding/packet-path.ts";
import { nativeLibraryPath } from "./packet-paths.ts";
import { Played } from "./played-trace.ts";

const nativePath = openNativePath(await nativeLibraryPath());
afterAll(() => nativePath.close());

for (const picture of ["VP8", "H264"] as const)
  for (const seed of [1, 2, 3])
    test(`${picture}, trace ${seed}: both paths send the same packets and reports`, async () => {
      const [expected, actual] = [
        await Played.of(typescriptPath, seed, picture),
        await Played.of(nativePath, seed, picture),
      ];
      for (const played of [expected, actual]) await played.play();
      expect([...actual.sent.keys()].sort()).toEqual([...expected.sent.keys()].sort());
      for (const [port, packets] of expected.sent) expect(actual.sent.get(port)).toEqual(packets);
      expect(actual.reports).toEqual(expected.reports);
      expect([...expected.sent.values()].flat().length).toBeGreaterThan(2_000);
      expect(actual.taken).toBeGreaterThan(2_000);
      expect(expected.taken).toBe(0);
    }, 60_000);

for (const picture of ["VP8", "H264"] as const)
  test(`${picture}: what native code forwards by itself is the same as well`, async () => {
    const watching = openNativePath(await nativeLibraryPath());
    const [expected, actual] = [
      await Played.of(typescriptPath, 4, picture),
      await Played.watched(watching, 4, picture),
    ];
    for (const played of [expected, actual]) await played.play();
    expect([...actual.sent.keys()].sort()).toEqual([...expected.sent.keys()].sort());
    for (const [port, packets] of expected.sent) expect(actual.sent.get(port)).toEqual(packets);
    expect(actual.reports).toEqual(expected.reports);
    expect(actual.forwarded).toBeGreaterThan(1_500);
    expect(actual.laidAside).toBeGreaterThan(20);
    watching.close();
  }, 60_000);
