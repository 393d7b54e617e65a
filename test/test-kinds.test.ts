import { expect, test } from "bun:test";
import { join } from "node:path";
import { Glob } from "bun";
import { folderOf, kindOf, NOT_QUICK, secondsOf, testFolders } from "../bin/test-kinds.ts";

const HERE = import.meta.dir;

test("tests that plug networks into the machine have one to themselves, as browsers beside them would lose requests", async () => {
  const folders = new Set<string>();
  for (const file of new Glob("*/**/*.ts").scanSync(HERE)) {
    const folder = folderOf(`test/${file}`);
    if (folder === "bench" || folder === "harness") continue;
    const text = await Bun.file(join(HERE, file)).text();
    if (/harness\/namespaces\.ts"|ip netns|type veth/.test(text)) folders.add(folder);
  }
  expect(folders.size).toBeGreaterThan(2);
  expect([...folders].filter((folder) => kindOf(folder).ownNetwork !== true)).toEqual([]);
});

test("of the quick tests those that take longest begin, so that none of them is left over for the end", () => {
  const folders = [...testFolders(join(HERE, ".."), "", true).keys()];
  const seconds = folders.map(secondsOf);
  expect(seconds).toEqual(seconds.toSorted((a, b) => b - a));
  expect(folders.some((folder) => kindOf(folder).notQuick)).toBe(false);
});

test("what is left out of the quick tests is there, and runs with all of them", () => {
  const files = (quick: boolean) => [...testFolders(join(HERE, ".."), "", quick)].flatMap(([, names]) => names);
  const [all, quick] = [files(false), files(true)];
  expect(NOT_QUICK.filter((file) => !all.includes(file))).toEqual([]);
  expect(NOT_QUICK.filter((file) => quick.includes(file))).toEqual([]);
  expect(quick.length).toBeGreaterThan(all.length / 3);
});
