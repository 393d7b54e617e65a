import { expect, test } from "bun:test";
import { createFrameBudget } from "../../../src/kernel/socket/frame-reader.ts";
import { fakeClock } from "../../harness/clock.ts";

test("[8] a clock that is set back refuses frames for no longer than a window", () => {
  const clock = fakeClock();
  const spend = createFrameBudget(clock.now, 2, 60);
  const kinds = [spend(), spend(), spend()].map(({ kind }) => kind);
  expect(kinds).toEqual(["ok", "ok", "over"]);
  clock.advance(-7_200_000);
  expect(spend()).toEqual({ kind: "ok" });
});
