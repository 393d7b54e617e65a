import { expect, test } from "bun:test";
import { createLanes } from "../../../src/features/webhooks/lanes.ts";

test("[7] an endpoint that answers has four lanes, not five", () => {
  const lanes = createLanes();
  lanes.take("a")(true);
  const releases = [1, 2, 3, 4].map(() => {
    expect(lanes.free("a")).toBe(true);
    return lanes.take("a");
  });
  expect(lanes.free("a")).toBe(false);
  expect(lanes.free("b")).toBe(true);
  releases[0]?.(true);
  expect(lanes.free("a")).toBe(true);
});

test("an endpoint that has not answered yet, or no longer does, has one", () => {
  const lanes = createLanes();
  const release = lanes.take("a");
  expect(lanes.free("a")).toBe(false);
  release(true);
  const [first, second] = [lanes.take("a"), lanes.take("a")];
  first(false);
  expect(lanes.free("a")).toBe(false);
  second(false);
  lanes.take("a");
  expect(lanes.free("a")).toBe(false);
});

test("any number of silent endpoints leaves lanes for those that answer", () => {
  const lanes = createLanes();
  lanes.take("good")(true);
  let silent = 0;
  while (lanes.free(`silent-${silent}`)) lanes.take(`silent-${silent++}`);
  expect(silent).toBeGreaterThanOrEqual(100);
  expect(lanes.free("good")).toBe(true);
});

test("the whole stays below what fetch keeps open at a time", () => {
  const lanes = createLanes();
  let busy = 0;
  for (let n = 0; n < 300; n++) {
    if (lanes.free(`e${n}`)) lanes.take(`e${n}`)(true);
    while (lanes.free(`e${n}`)) {
      lanes.take(`e${n}`);
      busy += 1;
    }
  }
  expect(busy).toBeLessThan(256);
  expect(busy).toBeGreaterThan(128);
});
