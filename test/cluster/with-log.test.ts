import { expect, test } from "bun:test";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");
const SPEC = [...new Bun.Glob("test/spec/*.test.ts").scanSync({ cwd: ROOT })];
/** All that one server promises, and what changes much; the rest with `STOA_TEST_LOG=memory bin/test chat` and `webhooks`. */
const IN_MEMORY = [...SPEC, "test/features/chat/model.test.ts", "test/features/webhooks/order.test.ts"];
/** What Postgres adds is that an append takes its time; the rest with `STOA_TEST_LOG=postgres bin/test spec` and so on. */
const IN_POSTGRES = [
  "test/spec/4.3-messages.test.ts",
  "test/features/chat/model.test.ts",
  "test/features/webhooks/order.test.ts",
];

async function runWith(log: "memory" | "postgres", files: readonly string[]): Promise<void> {
  const command = [process.execPath, "test", "--timeout", "120000", ...files.map((file) => `./${file}`)];
  const env = { ...process.env, STOA_TEST_LOG: log };
  const child = Bun.spawn(command, { cwd: ROOT, env, stdout: "ignore", stderr: "pipe" });
  const [output, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  expect(code === 0 ? "" : output).toBe("");
  // Each of them has run.
  expect(files.filter((file) => !output.includes(file))).toEqual([]);
}

test("the tests of one server pass with a commit log, whose replica has every row", async () => {
  expect(SPEC.length).toBeGreaterThan(0);
  await runWith("memory", IN_MEMORY);
}, 180_000);

test("the tests of one server pass with a commit log in Postgres", () => runWith("postgres", IN_POSTGRES), 180_000);
