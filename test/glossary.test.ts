import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Glob } from "bun";

const ROOT = join(import.meta.dir, "..");
const rows = readFileSync(join(ROOT, "src/GLOSSARY.md"), "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| "))
  .slice(1)
  .map((line) => line.slice(2, -2).split(" | "));
const terms = rows.map(([term = ""]) => term);

test("the glossary is in alphabetical order and has each term once", () => {
  const byName = (a: string, b: string) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1);
  expect(terms).toEqual([...new Set(terms)].sort(byName));
});

test("every term has a meaning, a standard's name and a place in the code", () => {
  const incomplete = rows.filter((cells) => cells.length !== 4 || cells.some((cell) => cell.trim() === ""));
  expect(incomplete).toEqual([]);
});

test("every type that the glossary names is declared", () => {
  const declared = new Set<string>();
  for (const path of ["src", "web"].flatMap((folder) => [...new Glob(`${folder}/**/*.{ts,tsx}`).scanSync(ROOT)])) {
    const source = readFileSync(join(ROOT, path), "utf8");
    for (const [, name = ""] of source.matchAll(/\b(?:class|type|interface|const|function) (\w+)/g)) declared.add(name);
  }
  const named = rows.flatMap(([, , , code = ""]) =>
    [...code.matchAll(/`(\w+)(?:\.\w+)?`/g)].map(([, name = ""]) => name),
  );
  const types = named.filter((name) => /^[A-Z]/.test(name));
  expect(types.length).toBeGreaterThan(100);
  expect(types.filter((name) => !declared.has(name))).toEqual([]);
});
