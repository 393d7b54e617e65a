import { test } from "bun:test";
import { testsPassWith } from "./with-log.ts";

/** The tests with the most changes, and those that Postgres affects, because an append takes time. with-log-all.test.ts runs all. */
const FILES = [
  "test/spec/4.3-messages.test.ts",
  "test/features/chat/model.test.ts",
  "test/features/webhooks/order.test.ts",
];

test(
  "the tests of one server pass with a commit log, whose replica has every row",
  () => testsPassWith("memory", FILES),
  180_000,
);

test("the tests of one server pass with a commit log in Postgres", () => testsPassWith("postgres", FILES), 180_000);
