import { expect, test } from "bun:test";
import { RevokedIds } from "../../../src/network/turn/authentication.ts";

test("a revoked id is kept until its credentials would have expired, and no longer", () => {
  const ended = new RevokedIds();
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
