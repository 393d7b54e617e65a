import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { documentConfig } from "../../src/kernel/config/document.ts";
import { VARIABLE_NAMES } from "../../src/kernel/config/index.ts";
import { ROOT } from "./stoa.ts";

const SHARED = /<!-- configuration -->\n([\s\S]*)\n<!-- \/configuration -->/;

test("[11] the README's configuration is what `stoa config doc` prints", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  expect(SHARED.exec(readme)?.[1]).toBe(documentConfig());
});

test("[11] the reference names every variable once, and no secret has a default", () => {
  const reference = documentConfig();
  for (const name of VARIABLE_NAMES) expect(reference.split(`| \`${name}\` |`)).toHaveLength(2);
  for (const line of reference.split("\n").filter((row) => row.includes("| secret, ")))
    expect(line).toMatch(/^\| `\w+` \| {2}\|/);
});
