// runs: beside one
import { expect, test } from "bun:test";
import { buildBinary } from "../binary/binary.ts";
import { KEPT_DESCRIPTORS, runFaults } from "./driver.ts";

/** Longer, and with a process that stands still for 20 s: `bin/bench faults`. */
const LENGTHS = { seconds: 30, faultSeconds: 4, stopSeconds: 6 };

test("[durability] after each kind of fault under load, no guarantee is broken", async () => {
  const binary = await buildBinary();
  const progress = (line: string) => console.log(`      ${line}`);
  const { broken, figures, usage } = await runFaults({ binary, seed: 1, progress, ...LENGTHS });
  progress(JSON.stringify({ ...figures, usage }));
  expect(broken).toEqual([]);
  expect(Math.min(...Object.values(figures))).toBeGreaterThan(0);
  expect(usage.after.descriptors).toBeLessThanOrEqual(usage.start.descriptors + KEPT_DESCRIPTORS);
  expect(usage.after.memoryMiB).toBeLessThanOrEqual(usage.full.memoryMiB + 150);
}, 600_000);
