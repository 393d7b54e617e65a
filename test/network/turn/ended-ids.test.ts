import { expect, test } from "bun:test";
import { EndedIds } from "../../../src/network/turn/ended-ids.ts";

test("an ended id is known until its credentials would have run out, and no longer", () => {
  const ended = new EndedIds();
  ended.add("a", 1_000);
  ended.add("b", 2_000);
  // Ended again, it counts from then.
  ended.add("a", 3_000);
  ended.prune(2_000);
  expect([...ended]).toEqual([["a", 3_000]]);
  expect([ended.has("a"), ended.has("b")]).toEqual([true, false]);
  ended.prune(3_000);
  expect([...ended]).toEqual([]);
});
