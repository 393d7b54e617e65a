import { expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
/** Little that changes much; all the rest with `STOA_TEST_LOG=memory bin/test spec`, `chat` and `webhooks`. */
const FILES = ["test/chat/model.test.ts", "test/spec/4.1-rooms.test.ts", "test/webhooks/order.test.ts"];

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
  for (const file of FILES) expect(output).toContain(file);
}, 180_000);
