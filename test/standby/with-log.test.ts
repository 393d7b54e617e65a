import { expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
/** All that one server promises, and what changes much; the rest with `STOA_TEST_LOG=memory bin/test chat` and `webhooks`. */
const SPEC = [...new Bun.Glob("test/spec/*.test.ts").scanSync({ cwd: ROOT })];
const FILES = [...SPEC, "test/chat/model.test.ts", "test/webhooks/order.test.ts"];

test("what holds for one server holds with a commit log, whose replica has every row", async () => {
  const files = FILES.map((file) => `./${file}`);
  const child = Bun.spawn([process.execPath, "test", "--timeout", "120000", ...files], {
    cwd: ROOT,
    env: { ...process.env, STOA_TEST_LOG: "memory" },
    stdout: "ignore",
    stderr: "pipe",
  });
  const [output, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  expect(code === 0 ? "" : output).toBe("");
  // Each of them has run.
  expect(FILES.filter((file) => !output.includes(file))).toEqual([]);
  expect(SPEC.length).toBeGreaterThan(0);
}, 180_000);
