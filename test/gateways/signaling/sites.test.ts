import { expect, test } from "bun:test";
import { Glob } from "bun";

test("no code assumes that a room is on one media node", async () => {
  const found: string[] = [];
  for await (const file of new Glob("src/**/*.ts").scan(".")) {
    if (
      /\broom\??\.placed\b|\{[^{}=]*\bplaced\b[^{}=]*\}(: LiveRoom| = \w*[rR]oom\b)/.test(await Bun.file(file).text())
    )
      found.push(file);
  }
  expect(found).toEqual([]);
});
