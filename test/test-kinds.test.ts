import { expect, test } from "bun:test";
import { join } from "node:path";
import { Glob } from "bun";
import { kindOf } from "../bin/test-kinds.ts";

const HERE = import.meta.dir;

test("tests that plug networks into the machine have one to themselves, as browsers beside them would lose requests", async () => {
  const folders = new Set<string>();
  for (const file of new Glob("*/**/*.ts").scanSync(HERE)) {
    const [folder = ""] = file.split("/");
    if (folder === "bench" || folder === "harness") continue;
    const text = await Bun.file(join(HERE, file)).text();
    if (/harness\/namespaces\.ts"|ip netns|type veth/.test(text)) folders.add(folder);
  }
  expect(folders.size).toBeGreaterThan(2);
  expect([...folders].filter((folder) => kindOf(folder).ownNetwork !== true)).toEqual([]);
});
