import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { requireThreads } from "../../src/cli/thread-limit.ts";

const work = mkdtempSync(join(tmpdir(), "stoa-threads-"));
afterAll(() => rmSync(work, { recursive: true }));

function machine(groups: string, folder: string, max: string): string {
  const root = mkdtempSync(join(work, "root-"));
  mkdirSync(join(root, "proc/self"), { recursive: true });
  writeFileSync(join(root, "proc/self/cgroup"), groups);
  const group = join(root, "sys/fs/cgroup", folder);
  mkdirSync(group, { recursive: true });
  writeFileSync(join(group, "pids.max"), `${max}\n`);
  writeFileSync(join(group, "pids.current"), "5\n");
  return root;
}

test("a server that may have too few threads reports it instead of aborting", () => {
  for (const [groups, folder] of [
    ["0::/system.slice/stoa.service\n", "system.slice/stoa.service"],
    ["9:name=systemd:/\n8:pids:/docker/a\n4:memory:/b\n0::/\n", "pids/docker/a"],
  ] as const) {
    expect(() => requireThreads(1, machine(groups, folder, "19"), 2)).toThrow(
      "only 19 threads are allowed here, of which 5 run. Allow 20: TasksMax of the unit",
    );
    requireThreads(1, machine(groups, folder, "20"), 2);
    expect(() => requireThreads(2, machine(groups, folder, "20"), 2)).toThrow("Allow 21: ");
    requireThreads(64, machine(groups, folder, "max"));
  }
  requireThreads(1, work);
  requireThreads(1);
});
