/** The kept inputs of `bin/bench fuzz`: those it starts with, and every one that once broke a parser. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { seededRandom } from "../../src/kernel/net/impairment.ts";
import { mutate } from "../bench/fuzz/mutate.ts";
import { corpusOf, PARSERS } from "../bench/fuzz/parsers.ts";

const ROUNDS = 500;

for (const [name, { read, dictionary = [] }] of Object.entries(PARSERS)) {
  test(`${name}: every kept input and ${ROUNDS} changes of them are parsed without an exception`, () => {
    const corpus = corpusOf(name);
    expect(corpus.length).toBeGreaterThan(0);
    for (const input of corpus) read(Buffer.from(input));
    const random = seededRandom(1);
    for (let i = 0; i < ROUNDS; i++) read(mutate(corpus[i % corpus.length] as Buffer, corpus, dictionary, random));
  });
}

test("every kept input belongs to a parser or to a fuzz target in C", () => {
  const targets = readdirSync(join(import.meta.dir, "../bench/fuzz/native")).map(
    (file) => `native-${file.replace(".c", "")}`,
  );
  const folders = readdirSync(join(import.meta.dir, "corpus"));
  expect(folders.filter((name) => !(name in PARSERS || targets.includes(name)))).toEqual([]);
});
