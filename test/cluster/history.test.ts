import { expect, test } from "bun:test";
import { type History, judge, NOTHING_WRONG } from "./history.ts";

const stored = [1, 2, 3].map((seq) => ({ id: `m${seq}`, seq }));
const good: History = {
  acknowledged: stored.map(({ id, seq }) => ({ id, seq, at: seq * 10 })),
  reads: [{ newest: 2, from: 25 }],
  heard: [[1, 2, 3]],
};

test("the test's checker accepts a history without faults", () => {
  expect(judge(good, stored, [1, 2, 3])).toEqual(NOTHING_WRONG);
});

test("the test's checker detects every kind of fault", () => {
  expect(judge(good, stored.slice(1), [2, 3])).toMatchObject({ lost: 1, gaps: 2 });
  expect(judge(good, [...stored, { id: "m3", seq: 4 }], [1, 2, 3, 4])).toMatchObject({ doubled: 1, changed: 1 });
  expect(judge({ ...good, reads: [{ newest: 1, from: 25 }] }, stored, [1, 2, 3])).toMatchObject({ stale: 1 });
  expect(judge({ ...good, heard: [[1, 3]] }, stored, [1, 2, 3])).toMatchObject({ misheard: 1 });
  expect(judge({ ...good, heard: [[1, 2]] }, stored, [1, 2, 3])).toMatchObject({ misheard: 1 });
  expect(judge({ ...good, heard: [["reset", 1, 3]] }, stored, [1, 2, 3])).toMatchObject({ misheard: 1 });
  expect(judge({ ...good, heard: [[1, 3, 2]] }, stored, [1, 2, 3]).misheard).toBeGreaterThan(0);
  expect(judge({ ...good, heard: [[1, 2, 2, 3]] }, stored, [1, 2, 3]).misheard).toBeGreaterThan(0);
});

test("the test's checker permits gaps to a client that was told to reload", () => {
  expect(judge({ ...good, heard: [[1, 3, "reset"]] }, stored, [1, 2, 3])).toEqual(NOTHING_WRONG);
  expect(judge({ ...good, heard: [[1, "reset"]] }, stored, [1, 2, 3])).toEqual(NOTHING_WRONG);
  expect(judge({ ...good, heard: [[1, "reset", 3]] }, stored, [1, 2, 3])).toEqual(NOTHING_WRONG);
});
