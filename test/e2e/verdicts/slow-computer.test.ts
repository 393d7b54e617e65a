// suite: soak
import { expect, test } from "bun:test";
import { verdictCalls } from "./wrong-verdicts.ts";

const wrong = verdictCalls();

// Chromium says "cpu" only within a range of processor shares, which some machines do not reach.
test("[17] a slow computer is reported as the cause of a bad call", async () => {
  expect(await wrong("publisher_cpu")).toEqual({});
}, 180_000);
