import { expect, test } from "bun:test";
import { SerialRun } from "../../../src/kernel/scheduling/serial-run.ts";

test("calls during a run make it repeat once, after it has ended", async () => {
  const ends: (() => void)[] = [];
  let atOnce = 0;
  const run = new SerialRun(async () => {
    atOnce += 1;
    expect(atOnce).toBe(1);
    await new Promise<void>((resolve) => ends.push(resolve));
    atOnce -= 1;
  });
  const first = run.run();
  const [second, third] = [run.run(), run.run()];
  expect(ends).toHaveLength(1);
  ends[0]?.();
  while (ends.length < 2) await Promise.resolve();
  expect(run.running).not.toBeNull();
  ends[1]?.();
  await Promise.all([first, second, third]);
  expect(ends).toHaveLength(2);
  expect(run.running).toBeNull();
});

test("a run that fails can be started again", async () => {
  let fails = true;
  const run = new SerialRun(async () => {
    if (fails) throw new Error("no space");
  });
  await expect(run.run()).rejects.toThrow("no space");
  expect(run.running).toBeNull();
  fails = false;
  await run.run();
});
