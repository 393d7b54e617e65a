import { expect, test } from "bun:test";
import { createLargeResponses } from "../../../src/kernel/http/serving/large-responses.ts";

const MEBIBYTE = 1024 * 1024;
/** Stays until it is answered. */
const READER = { signal: new AbortController().signal };

test("[8] two of many responses of a megabyte begin in each event-loop tick, in the order of their requests", async () => {
  const turns: (() => void)[] = [];
  const begins = createLargeResponses((run) => turns.push(run));
  const begun: number[] = [];
  for (let n = 0; n < 9; n++) {
    const turn = begins(MEBIBYTE, READER);
    if (turn) void turn.then(() => begun.push(n));
    else begun.push(n);
  }
  expect(begun).toEqual([0, 1]);
  // A small response never waits.
  expect(begins(1_000, READER)).toBeNull();
  for (let so = 4; so <= 9; so += 2) {
    expect(turns).toHaveLength(1);
    turns.shift()?.();
    await Promise.resolve();
    await Promise.resolve();
    expect(begun.length).toBe(Math.min(so, 9));
  }
  turns.shift()?.();
  await Promise.resolve();
  await Promise.resolve();
  expect(begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
  // No request has come since, so there is nothing left to do.
  turns.shift()?.();
  expect(turns).toHaveLength(0);
  expect(begins(MEBIBYTE, READER)).toBeNull();
});

test("[8] a response that is larger than the budget of a tick begins, and the next one after it", async () => {
  const turns: (() => void)[] = [];
  const begins = createLargeResponses((run) => turns.push(run));
  expect(begins(50 * MEBIBYTE, READER)).toBeNull();
  let begun = false;
  void begins(50 * MEBIBYTE, READER)?.then(() => {
    begun = true;
  });
  turns.shift()?.();
  await Promise.resolve();
  await Promise.resolve();
  expect(begun).toBe(true);
});

test("[17] a client that disconnects while it waits leaves the queue, and the next one moves up", async () => {
  const turns: (() => void)[] = [];
  const begins = createLargeResponses((run) => turns.push(run));
  expect([begins(MEBIBYTE, READER), begins(MEBIBYTE, READER)]).toEqual([null, null]);
  const hasty = new AbortController();
  let released = 0;
  for (let n = 0; n < 1_000; n++) void begins(MEBIBYTE, hasty)?.then(() => released++);
  let isServed = false;
  void begins(MEBIBYTE, READER)?.then(() => {
    isServed = true;
  });
  hasty.abort();
  await Promise.resolve();
  expect(released).toBe(1_000);
  turns.shift()?.();
  await Promise.resolve();
  expect(isServed).toBe(true);
  // A response whose client has gone does not begin.
  expect(begins(MEBIBYTE, READER)).toBeNull();
  expect(begins(MEBIBYTE, READER)).toBeInstanceOf(Promise);
  expect(begins(MEBIBYTE, hasty)).toBeNull();
});
