import { expect, test } from "bun:test";
import { join } from "node:path";

const root = join(import.meta.dir, "../..");
type Manifest = {
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  trustedDependencies?: string[];
};
const manifest = (await Bun.file(join(root, "package.json")).json()) as Manifest;
const lock = await Bun.file(join(root, "bun.lock")).text();

test("every dependency is pinned to one version, the lock file's", () => {
  for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    // One of them stands there under another name, beside its successor.
    const [, actual = name, exact = version] = /^npm:(.+)@(.+)$/.exec(version) ?? [];
    expect([name, exact]).toEqual([name, expect.stringMatching(/^\d+\.\d+\.\d+(-[\w.]+)?$/)]);
    expect(lock).toContain(`"${actual}@${exact}"`);
  }
});

test("every package of the lock file has a digest, and none runs a script when it is installed", () => {
  const entries = lock.split("\n").filter((line) => /^ {4}"[^"]+": \["[^"]+@/.test(line));
  expect(entries.length).toBeGreaterThan(50);
  expect(entries.filter((line) => !/"sha512-[\w+/=]{86,}"\],?$/.test(line))).toEqual([]);
  expect(manifest.trustedDependencies ?? []).toEqual([]);
});
