import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const SCRIPT = `
const { openSync } = await import("node:fs");
const { watchDisk } = await import("${join(import.meta.dir, "../../../src/kernel/db/disk.ts")}");
const folder = process.argv[1];
let at = 0;
const problem = watchDisk(folder, () => (at += 10_000), async () => {});
console.log(problem());
console.log(watchDisk(folder + "/missing", () => 0, async () => {})());
try {
  for (;;) openSync("/dev/null");
} catch {}
console.log(problem());
`;

test("a disk without space is reported, and a process without file descriptors does not blame its disk", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stoa-disk-"));
  const command = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", process.execPath, "-e", SCRIPT, folder];
  const child = Bun.spawn(command, { stdout: "pipe", stderr: "pipe" });
  const output = await new Response(child.stdout).text();
  expect(output).toBe("null\nthe disk takes no more writes (ENOENT)\nnull\n");
  rmSync(folder, { recursive: true });
});
