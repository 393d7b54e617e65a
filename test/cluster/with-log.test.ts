import { test } from "bun:test";
import { testsPassWith } from "./with-log.ts";

/** What changes most, and what Postgres adds: that an append takes its time. Everything: with-log-all.test.ts. */
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
