/**
 * Every check of the project, each in a process of its own, so that a crash in one kind of test does not hide the rest:
 * types and lint, then the browser's tests beside all others, and last, alone, those that take the whole machine. Types are
 * checked in the place of the browser's tests, which follow.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildWeb } from "./build-web.ts";
import { kindOf, testFolders } from "./test-kinds.ts";
import { ensurePrograms } from "./test-programs.ts";
import { type FileResult, type RunOptions, run, runFiles } from "./test-run.ts";

type Counts = { passed: number; failed: number };

const ROOT = join(import.meta.dir, "..");
const LINES_OF_A_FAILURE = 25;
/** Tests that start a process of their own find `bun` on the PATH, also where nobody has installed it. */
const ENVIRONMENT = { ...process.env, NO_COLOR: "1", PATH: `${join(ROOT, "bin")}:${process.env.PATH}` };
const { values, positionals } = parseArgs({ options: { quick: { type: "boolean" } }, allowPositionals: true });
const [filter] = positionals;
const quick = values.quick === true;
const startedAt = performance.now();

const total: Counts = { passed: 0, failed: 0 };
/** Files that failed beside others, with what they printed then. */
const failedOnce: { file: string; options: RunOptions; output: string }[] = [];

// Each checker of its own checks again what it shares with the others: one takes little more than half the time of four.
const types = filter === undefined && check("types", ["node_modules/.bin/tsc", "--noEmit", "--checkers", "1"]);
const lint =
  filter === undefined && check("lint", ["node_modules/.bin/biome", "check", "--diagnostic-level=error", "."]);
const folders = testFolders(ROOT, filter ?? "", quick);
let begun = 0;
let binary: string | null = null;
if (folders.size === 0 && filter !== undefined) {
  console.log(`There is no test file whose path has "${filter}".`);
  total.failed++;
}
// Nothing that a test writes for a while is there to be linted.
await Promise.all([lint, build().catch(afterChecks)]);
// Installing is not for two at once.
for (const folder of folders.keys()) await ensurePrograms(folder);
const isBrowser = (folder: string) => folder.startsWith("e2e/");
const isAlone = (folder: string) => kindOf(folder).alone === true;
const together = [...folders].filter(([folder]) => !isAlone(folder));
const browsers = together.filter(([folder]) => isBrowser(folder));
const rest = together.filter(([folder]) => !isBrowser(folder));
const isSlow = (folder: string) => kindOf(folder).slow === true && kindOf(folder).anywhere !== true;
const slow = rest.filter(([folder]) => isSlow(folder));
const left = rest.filter(([folder]) => !isSlow(folder));
// One browser at a time is as much as two cores bear; whoever is done with its own helps with what is left.
const lane = async (before: unknown, first: [string, string[]][]) => {
  await before;
  await inTurn(first);
  await inTurn(left);
};
await Promise.all([lane(types, browsers), lane(lint, slow)]);
await inTurn([...folders].filter(([folder]) => isAlone(folder)));
await runAgain();

console.log(`\n${quick ? "quick, " : ""}in ${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);

async function check(name: string, command: string[]): Promise<void> {
  const finish = begin(name);
  const { code, output, cpuSeconds } = await run(command, ROOT, ENVIRONMENT);
  if (code === 0) total.passed++;
  else total.failed++;
  finish(code === 0 ? "ok" : "failed", cpuSeconds, code === 0 ? "" : output);
}

/**
 * What pages load; and unless only some tests run, the whole binary once for all who start servers: from source a server takes
 * three times as long to start, and there are hundreds.
 */
async function build(): Promise<void> {
  if (filter !== undefined) return buildWeb(ROOT, join(ROOT, "dist/web"));
  const { code, output } = await run([process.execPath, "bin/build.ts"], ROOT, ENVIRONMENT);
  if (code !== 0) throw new Error(`nothing could be built:\n${output}`);
  binary = join(ROOT, "dist/stoa");
}

/** Where nothing can be built, types and lint are told before that: they may name the cause. */
async function afterChecks(error: unknown): Promise<never> {
  await Promise.all([types, lint]);
  throw error;
}

/** Takes folders off the list until it is empty: two may work on the same one. */
async function inTurn(folders: [string, string[]][]): Promise<void> {
  for (let next = folders.shift(); next; next = folders.shift()) await runTests(...next);
}

async function runTests(folder: string, files: readonly string[]): Promise<void> {
  const finish = begin(`test/${folder}`, ` (${++begun} of ${folders.size})`);
  const { slow, ownNetwork, built } = kindOf(folder);
  const env = built === true && binary !== null ? { ...ENVIRONMENT, BUILT_STOA: binary } : ENVIRONMENT;
  const options = { timeoutMs: slow === true ? 180_000 : 30_000, env, ownNetwork };
  const { code, output, cpuSeconds, files: results } = await runFiles(ROOT, files, options);
  const failed = [...results].filter(([, result]) => result.failed > 0).map(([file]) => file);
  const counts = sum([...results].filter(([file]) => !failed.includes(file)).map(([, result]) => result));
  // An error outside any file ends the process without a failed test to its name.
  if (code !== 0 && failed.length === 0) counts.failed = 1;
  total.passed += counts.passed;
  total.failed += counts.failed;
  for (const file of failed) failedOnce.push({ file, options, output });
  const again = failed.length > 0 ? `, again later: ${failed.join(", ")}` : "";
  finish(`${counts.passed} passed, ${counts.failed} failed${again}`, cpuSeconds, counts.failed > 0 ? output : "");
}

/**
 * A file that failed is run once more, when nothing else runs. Browsers and killed processes on a busy machine now and
 * then miss a deadline; a fault in the code fails both times. What passed only then is named.
 */
async function runAgain(): Promise<void> {
  for (const { file, options, output } of failedOnce) {
    const finish = begin(file);
    const again = await runFiles(ROOT, [file], options);
    const { passed, failed } = again.files.get(file) ?? { passed: 0, failed: 1 };
    total.passed += passed;
    total.failed += failed;
    const said = failed > 0 ? again.output : `passed only on the second run\n${failures(output)}`;
    finish(`${passed} passed, ${failed} failed`, again.cpuSeconds, said);
  }
}

function sum(results: Iterable<FileResult>): Counts {
  const counts: Counts = { passed: 0, failed: 0 };
  for (const { passed, failed } of results) {
    counts.passed += passed;
    counts.failed += failed;
  }
  return counts;
}

/** Each failed test with the last of what was said before it: that is where its error stands. */
function failures(output: string): string {
  const lines = output.split("\n");
  return lines
    .flatMap((line, at) => (line.startsWith("(fail)") ? lines.slice(Math.max(0, at - LINES_OF_A_FAILURE), at + 1) : []))
    .join("\n");
}

/** Names what begins, and when it is done its result, how long it took, and how much of the processors: two may run at once. */
function begin(name: string, progress = ""): (result: string, cpuSeconds: number, output: string) => void {
  const startedAt = performance.now();
  console.log(`${name}${progress} …`);
  return (result, cpuSeconds, output) => {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    const took = `${seconds.padStart(7)} s ${cpuSeconds.toFixed(0).padStart(5)} s of a processor`;
    console.log(`${name.padEnd(24)} ${result.padEnd(28)} ${took}`);
    if (output !== "") console.log(output);
  };
}
