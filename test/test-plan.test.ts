import { expect, test } from "bun:test";
import { join } from "node:path";
import { Glob } from "bun";
import { findTests, folderOf, kindOf } from "../bin/test-plan.ts";

const ROOT = join(import.meta.dir, "..");
const tests = findTests(ROOT);

test("tests that add interfaces to the network run in a namespace of their own", async () => {
  const folders = new Set<string>();
  for (const file of new Glob("test/**/*.ts").scanSync(ROOT)) {
    const folder = folderOf(file);
    if (folder === "bench" || folder === "harness") continue;
    const text = await Bun.file(join(ROOT, file)).text();
    if (/harness\/namespaces\.ts"|ip netns add|type veth/.test(text) && file !== "test/test-plan.test.ts")
      folders.add(folder);
  }
  expect(folders.size).toBeGreaterThan(2);
  expect([...folders].filter((folder) => !kindOf(folder).ownNetwork)).toEqual([]);
});

test("the default suite needs no Debian packages but Chromium, compilers and what the installer needs", () => {
  const needs = new Set(tests.filter(({ suite }) => suite === "default").flatMap(({ needs }) => needs));
  const known = ["chromium", "gcc", "libc6-dev", "libssl-dev", "minisign", "python3", "golang-go", "jq", "curl"];
  expect([...needs].filter((name) => !known.includes(name))).toEqual([]);
});

test("the default suite has one browser journey, the compiled binary and the whole specification", () => {
  const paths = tests.filter(({ suite }) => suite === "default").map(({ path }) => path);
  expect(paths.filter((path) => kindOf(folderOf(path)).browser)).toEqual(["test/e2e/journey/journey.test.ts"]);
  expect(paths).toContain("test/e2e/binary/binary.test.ts");
  const spec = tests.filter(({ folder }) => folder === "spec");
  expect(spec.filter(({ suite }) => suite !== "default")).toEqual([]);
  expect(paths.length).toBeGreaterThan(tests.length / 3);
});
