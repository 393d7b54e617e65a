// suite: soak
import { expect, test } from "bun:test";
import { ROOT, testsPassWith } from "./with-log.ts";

test("every test of a single server passes with a commit log, and its replica has every row", async () => {
  const files = [...new Bun.Glob("test/spec/*.test.ts").scanSync({ cwd: ROOT })];
  expect(files.length).toBeGreaterThan(0);
  await testsPassWith("memory", files);
}, 600_000);
