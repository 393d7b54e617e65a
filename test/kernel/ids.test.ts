import { expect, test } from "bun:test";
import { createIds, randomBase62 } from "../../src/kernel/crypto/ids.ts";

test("public ids sort by the time at which they are made, and no two of the same time are equal", () => {
  let at = 0;
  const ids = createIds(() => at);
  const times = [0, 61, 62, Date.UTC(2026, 10, 18), Date.UTC(2026, 10, 18) + 1, Date.UTC(2081, 0), Date.UTC(2500, 0)];
  const made = times.map((time) => {
    at = time;
    return ids.publicId("message");
  });
  expect(made.toSorted()).toEqual(made);
  for (const id of made) expect(id).toMatch(/^msg_[0-9A-Za-z]{24}$/);

  const ofOneTime = Array.from({ length: 10_000 }, () => ids.publicId("conversation"));
  expect(new Set(ofOneTime).size).toBe(ofOneTime.length);
  expect(new Set(ofOneTime.map((id) => id.slice(0, "conv_".length + 8))).size).toBe(1);
});

test("a request id is random, because nothing is stored under it", () => {
  const ids = createIds(() => 0);
  const made = Array.from({ length: 1_000 }, () => ids.publicId("request"));
  for (const id of made) expect(id).toMatch(/^req_[0-9a-f]{24}$/);
  expect(new Set(made.map((id) => id.slice(0, "req_".length + 8))).size).toBeGreaterThan(990);
});

test("random characters have the length that was requested, and each of them is as frequent as the others", () => {
  for (const length of [1, 16, 24, 4_096]) expect(randomBase62(length)).toMatch(new RegExp(`^[0-9A-Za-z]{${length}}$`));
  const counts = new Map<string, number>();
  for (const character of randomBase62(620_000)) counts.set(character, (counts.get(character) ?? 0) + 1);
  expect(counts.size).toBe(62);
  // Ten standard deviations. Without the limit of 248, the first characters would have a fifth more.
  for (const count of counts.values()) expect(Math.abs(count - 10_000)).toBeLessThan(1_000);
});
