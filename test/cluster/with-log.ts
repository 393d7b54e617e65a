import { expect } from "bun:test";
import { join } from "node:path";

export const ROOT = join(import.meta.dir, "../..");

/** Runs test files in a process of their own, where every server of the harness has a commit log. */
export async function testsPassWith(log: "memory" | "postgres", files: readonly string[]): Promise<void> {
  const command = [process.execPath, "test", "--timeout", "120000", ...files.map((file) => `./${file}`)];
  const env = { ...process.env, STOA_TEST_LOG: log };
  const child = Bun.spawn(command, { cwd: ROOT, env, stdout: "ignore", stderr: "pipe" });
  const [output, code] = await Promise.all([new Response(child.stderr).text(), child.exited]);
  expect(code === 0 ? "" : output).toBe("");
  // Each of them has run.
  expect(files.filter((file) => !output.includes(file))).toEqual([]);
}
