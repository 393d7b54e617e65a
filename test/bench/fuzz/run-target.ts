/** Fuzzes one TypeScript parser in a process of its own, guided by block coverage. The parent sees its input even when it hangs. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { seededRandom } from "../../../src/kernel/net/impairment.ts";
import { startCoverage, TooMuchWork } from "./coverage.ts";
import { MAX_INPUT_BYTES, mutate } from "./mutate.ts";

const [name = "", seconds = "1", board = "", findings = "", seed = "1"] = process.argv.slice(2);
const coverage = startCoverage();
// Only modules that are imported from here on have counters.
const { PARSERS, corpusOf } = await import("./parsers.ts");
const parser = PARSERS[name];
if (!parser) throw new Error(`there is no parser called ${name}`);

const MAX_CORPUS = 4_000;
const HEAD_BYTES = 16;
/** The number of inputs so far, the length of the input, and the input. */
const shown = Buffer.from(Bun.mmap(board, { shared: true }).buffer);
const random = seededRandom(Number(seed));
const corpus: Uint8Array[] = [];
/** For each place in the code, the powers of two of hits that were seen. */
const seen = new Uint8Array(coverage.hits.length);
let executions = 0;
let blocks = 0;
const found = new Map<string, string>();
/** Inputs that earlier runs have kept, so that short runs add up. */
const keptFolder = join(dirname(board), `${name}-corpus`);
mkdirSync(keptFolder, { recursive: true });

function run(input: Buffer): void {
  executions++;
  shown.writeDoubleLE(executions, 0);
  shown.writeUInt32LE(input.length, 8);
  shown.set(input, HEAD_BYTES);
  coverage.hits.fill(0, 0, coverage.places);
  coverage.steps = 0;
  coverage.maxSteps = (parser?.stepsPerByte ?? 200) * (input.length + 100);
  try {
    parser?.read(input);
  } catch (error) {
    note(error, input);
  }
  // An error within the parser may have been caught by itself.
  if (coverage.steps > coverage.maxSteps) note(new TooMuchWork("work that grows faster than the input"), input);
  coverage.maxSteps = Number.MAX_VALUE;
  if (!isNew() || corpus.length >= MAX_CORPUS) return;
  corpus.push(Uint8Array.from(input));
  const file = join(keptFolder, Bun.hash(input).toString(16));
  if (!existsSync(file)) writeFileSync(file, input);
}

function isNew(): boolean {
  let isAny = false;
  const { hits, places } = coverage;
  for (let place = 0; place < places; place++) {
    const count = hits[place] as number;
    if (count === 0) continue;
    const bucket = 1 << (31 - Math.clz32(count));
    const before = seen[place] as number;
    if ((before & bucket) !== 0) continue;
    if (before === 0) blocks++;
    seen[place] = before | bucket;
    isAny = true;
  }
  return isAny;
}

function note(error: unknown, input: Buffer): void {
  const stack = error instanceof Error ? (error.stack ?? "").split("\n") : [];
  const where = stack.find((line) => line.includes("/src/"))?.trim() ?? "";
  const what = error instanceof TooMuchWork ? "too much work" : `${error} ${where}`;
  if (found.has(what)) return;
  const file = join(findings, `${name}-${Bun.hash(input).toString(16)}`);
  writeFileSync(file, input);
  found.set(what, file);
}

for (const input of corpusOf(name)) run(Buffer.from(input.subarray(0, MAX_INPUT_BYTES)));
for (const file of readdirSync(keptFolder)) run(readFileSync(join(keptFolder, file)).subarray(0, MAX_INPUT_BYTES));
if (corpus.length === 0) corpus.push(new Uint8Array(1));
const initial = executions;
const until = performance.now() + Number(seconds) * 1_000;
while (performance.now() < until) {
  for (let i = 0; i < 64; i++) {
    // The newest are less known.
    const share = random() < 0.5 ? random() : 1 - random() ** 2 / 4;
    const input = corpus[Math.min(corpus.length - 1, Math.floor(share * corpus.length))] as Uint8Array;
    run(mutate(input, corpus, parser.dictionary ?? [], random));
  }
}
const { places } = coverage;
console.log(JSON.stringify({ executions, initial, blocks, places, corpus: corpus.length, found: [...found] }));
process.exit();
