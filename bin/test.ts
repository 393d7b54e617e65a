/**
 * `bin/test` is for everyone: types, lint, unit and specification tests, one browser journey, the compiled binary. It installs
 * nothing of the system but a missing Chromium. `bin/test --all` runs everything and installs the Debian packages it needs;
 * `bin/test --soak` runs the long rounds and matrices. A filter runs the test files whose path contains it.
 *
 * `--retry` is for machines that others use too, such as a shared CI: a file that failed runs once more, alone, at the end.
 * If it passes then, the run does not fail, but its last lines name the file as flaky: a bug to be found.
 *
 * Each folder runs in a process of its own, so that a crash in one does not hide the rest; two run at a time, and a third that
 * mostly waits. Those that only compute begin when the first of the three has nothing left to take, and get the processor time
 * that the others leave.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { buildWeb } from "./build-web.ts";
import { installPackages, isMissing } from "./debian-packages.ts";
import { findTests, kindOf, type Suite, startsFromBinary, type TestFile } from "./test-plan.ts";
import { run, runFiles } from "./test-run.ts";

const ROOT = join(import.meta.dir, "..");
/** Tests that start a process of their own find `bun` on the PATH, even where it is not installed. */
const ENVIRONMENT = { ...process.env, NO_COLOR: "1", PATH: `${join(ROOT, "bin")}:${process.env.PATH}` };
/** The duration of each folder in the last run: the longest folders begin first, so that none is left for the end. */
const DURATIONS = join(ROOT, ".cache/test-durations.json");
/** Seconds that the folders take, for a clone that has no durations of an earlier run. */
const FIRST_DURATIONS: Record<string, number> = {
  "gateways/livekit (shell)": 375,
  "e2e/sdk (shell)": 220,
  cluster: 240,
  sfu: 225,
  "e2e/dashboard (shell)": 195,
  "features/recordings": 140,
  "e2e/embed (shell)": 130,
  security: 120,
  "nodes/remote": 120,
  "web/package": 115,
  ops: 115,
  "e2e (shell)": 75,
  "e2e/media (alone)": 75,
  "features/chat": 70,
  spec: 65,
  "e2e/docs": 55,
  "ops (beside one)": 50,
  "e2e/playground (shell)": 40,
  "e2e/binary": 50,
  foreign: 100,
  "e2e/media (shell)": 30,
  "rtc-client": 30,
  "e2e/faults (beside one)": 25,
  "gateways/livekit (beside one)": 15,
  "gateways/livekit (alone)": 15,
  "e2e (alone)": 30,
  "network/tls": 25,
  "e2e/faults": 25,
  "web/sdk": 20,
  "network/acme": 20,
  "e2e/networks (beside one)": 20,
  "cluster (beside one)": 5,
  e2e: 20,
  "web/docs": 15,
  "gateways/signaling": 15,
  "features/sessions": 15,
  cli: 15,
  "features/accounts": 10,
};
const HEADLESS_SHELL = "chromium-headless-shell";
const SLOW_TEST_MS = 180_000;
const FAST_TEST_MS = 30_000;
const LINES_BEFORE_A_FAILURE = 25;
const SLOWEST_FILES = 12;
/** If more files than this fail, it is no accident, and running them again would only take time. */
const MAX_RETRIED_FILES = 40;

type TestProcess = Pick<TestFile, "folder" | "beside" | "shell"> & { name: string; files: TestFile[] };

const { values, positionals } = parseArgs({
  options: {
    all: { type: "boolean" },
    soak: { type: "boolean" },
    retry: { type: "boolean" },
    help: { type: "boolean" },
  },
  allowPositionals: true,
});
if (values.help) {
  console.log("bin/test [--all | --soak] [--retry] [PART OF A PATH]");
  process.exit(0);
}
const [filter] = positionals;
const suites: Suite[] = values.soak ? ["soak"] : values.all || filter !== undefined ? ["default", "all"] : ["default"];
const startedAt = performance.now();
const total = { passed: 0, failed: 0 };
const skipped: { test: TestFile; missing: string[] }[] = [];
const durations: Record<string, number> = readDurations();
const secondsOfFiles = new Map<string, number>();
/** The files that failed, with the number of their failures. */
const failures: { test: TestFile; failed: number }[] = [];
const flaky: string[] = [];

const found = findTests(ROOT, filter).filter(({ suite }) => suites.includes(suite));
if (found.length === 0) {
  console.log(`There is no test file whose path contains "${filter}".`);
  total.failed++;
}
await install();
const tests = found.filter((test) => {
  const missing = test.needs.filter(isMissing);
  if (missing.length > 0) skipped.push({ test, missing });
  return missing.length === 0;
});

// One checker takes little more than half the processor time of four, which each check again what they share. What has not
// changed since the last run is not checked again.
const incremental = ["--incremental", "--tsBuildInfoFile", ".cache/types.tsbuildinfo"];
const types =
  filter === undefined && check("types", ["node_modules/.bin/tsc", "--noEmit", "--checkers", "1", ...incremental]);
const lint =
  filter === undefined && check("lint", ["node_modules/.bin/biome", "check", "--diagnostic-level=error", "."]);
const binary = await build();
await lint;

const all = processesOf(tests);
const shared = all.filter(({ beside }) => beside === "others");
const browsers = shared.filter(({ folder }) => kindOf(folder).browser);
const waiting = shared.filter(({ folder }) => kindOf(folder).waits);
const background = shared.filter(({ folder }) => kindOf(folder).background);
const others = shared.filter((each) => ![browsers, waiting, background].some((list) => list.includes(each)));
const pairs = all.filter(({ beside }) => beside === "one");
const alone = all.filter(({ beside }) => beside === "nothing");
let begun = 0;
const workers = [
  Promise.resolve(types).then(() => runEach(browsers, others, waiting)),
  // A second browser runs beside the first one once nothing else is left.
  runEach(others, waiting, browsers),
  runEach(waiting),
];
const computed = Promise.race(workers).then(() => runInBackground(background));
await Promise.all(workers);
await Promise.all([runEach(pairs), runEach(pairs)]);
await Promise.all([computed, runEach(background)]);
await runEach(alone);
if (values.retry && failures.length <= MAX_RETRIED_FILES) await retryFailures();
report();

/** Chromium for everyone who may install it; the rest with `--all` alone. */
async function install(): Promise<void> {
  const wanted = found.flatMap(({ needs }) => needs);
  await installPackages(values.all || values.soak ? wanted : wanted.filter((name) => name === "chromium"));
  // Where there is no such package, the tests take longer.
  if (values.all && found.some(({ shell }) => shell)) await installPackages([HEADLESS_SHELL]);
}

async function check(name: string, command: string[]): Promise<void> {
  const finish = begin(name);
  const { code, output } = await run(command, ROOT, ENVIRONMENT);
  if (code === 0) total.passed++;
  else total.failed++;
  finish(code === 0 ? "ok" : "failed", code === 0 ? "" : output);
}

/** The web assets and the binary, once for every server that the tests start; only the assets for a few files. */
async function build(): Promise<string | null> {
  if (filter !== undefined && !values.all) {
    await buildWeb(ROOT, join(ROOT, "dist/web"));
    return null;
  }
  const finish = begin("build");
  const { code, output } = await run([process.execPath, "bin/build.ts"], ROOT, ENVIRONMENT);
  finish(code === 0 ? "ok" : "failed", code === 0 ? "" : output);
  if (code === 0) return join(ROOT, "dist/stoa");
  // Types and lint may name the cause.
  await Promise.all([types, lint]);
  total.failed++;
  report();
  process.exit(1);
}

/** One process for the files of a folder that run in the same way; the longest of the last run come first. */
function processesOf(tests: TestFile[]): TestProcess[] {
  const nameOf = ({ folder, beside, shell }: TestFile) =>
    [folder, { others: "", one: " (beside one)", nothing: " (alone)" }[beside], shell ? " (shell)" : ""].join("");
  return [...Map.groupBy(tests, nameOf)]
    .flatMap(([name, files]) =>
      files.slice(0, 1).map(({ folder, beside, shell }) => ({ name, folder, beside, shell, files })),
    )
    .sort((a, b) => secondsOf(b) - secondsOf(a));
}

/** Takes processes off one list after the other until all are empty: workers may share a list. */
async function runEach(...lists: TestProcess[][]): Promise<void> {
  for (const list of lists) for (let next = list.shift(); next; next = list.shift()) await runProcess(next);
}

/** Whatever else wants to run takes the processor from these at once, which a low priority alone does not ensure. */
async function runInBackground(list: TestProcess[]): Promise<void> {
  const prefix = [
    ["chrt", "--idle", "0"],
    ["nice", "-n", "19"],
  ].find(([program = ""]) => Bun.which(program) !== null);
  for (let next = list.shift(); next; next = list.shift()) await runProcess(next, prefix);
}

async function runProcess({ name, folder, shell, files }: TestProcess, prefix: string[] = []): Promise<void> {
  const finish = begin(`test/${name}`, ` (${++begun} of ${all.length})`);
  const began = performance.now();
  const {
    code,
    output,
    cpuSeconds,
    files: results,
  } = await runFiles(
    ROOT,
    files.map(({ path }) => path),
    { ...optionsOf(folder, shell), prefix },
  );
  durations[name] = Math.round((performance.now() - began) / 1000);
  let [passed, failed] = [0, 0];
  for (const [file, result] of results) {
    secondsOfFiles.set(file, result.seconds);
    passed += result.passed;
    failed += result.failed;
  }
  const failedFiles = files.filter(({ path }) => (results.get(path)?.failed ?? 0) > 0);
  failures.push(...failedFiles.map((test) => ({ test, failed: results.get(test.path)?.failed ?? 0 })));
  // An error outside any test ends the process without a failed test to its name.
  if (code !== 0 && failed === 0) failed = 1;
  total.passed += passed;
  total.failed += failed;
  // A folder that takes much longer than its processor time waits for something.
  finish(`${passed} passed, ${failed} failed, ${cpuSeconds.toFixed(0)} s CPU`, failed > 0 ? failedTests(output) : "");
}

/** A file that passes now is flaky, and its failures do not count. */
async function retryFailures(): Promise<void> {
  for (const { test, failed } of failures) {
    const finish = begin(`${test.path} again`);
    const { code, output } = await runFiles(ROOT, [test.path], optionsOf(test.folder, test.shell));
    finish(code === 0 ? "passed" : "failed", code === 0 ? "" : failedTests(output));
    if (code !== 0) continue;
    flaky.push(test.path);
    total.failed -= failed;
    total.passed += failed;
  }
}

function optionsOf(folder: string, inShell: boolean) {
  const { slow, ownNetwork } = kindOf(folder);
  const shell = inShell ? Bun.which(HEADLESS_SHELL) : null;
  const env = {
    ...(shell !== null && { CHROMIUM_PATH: shell }),
    ...ENVIRONMENT,
    ...(binary !== null && startsFromBinary(folder) && { BUILT_STOA: binary }),
  };
  return { timeoutMs: slow ? SLOW_TEST_MS : FAST_TEST_MS, env, ownNetwork };
}

function report(): void {
  writeDurations();
  if (skipped.length > 0) {
    console.log("\nSkipped, as programs are missing (bin/test --all installs them):");
    for (const [missing, group] of Map.groupBy(skipped, ({ missing }) => missing.join(", "))) {
      console.log(`  needs ${missing}:`);
      for (const { test } of group) console.log(`    bin/test --all ${test.path}`);
    }
  }
  if (filter === undefined) {
    const slowest = [...secondsOfFiles].sort(([, a], [, b]) => b - a).slice(0, SLOWEST_FILES);
    console.log("\nThe slowest files:");
    for (const [file, seconds] of slowest) console.log(`${seconds.toFixed(1).padStart(7)} s  ${file}`);
  }
  if (flaky.length > 0) {
    console.log("\nFLAKY, as they failed first and passed alone:");
    for (const path of flaky) console.log(`  ${path}`);
  }
  console.log(`\nin ${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes`);
  const notRun = skipped.length > 0 ? `, ${skipped.length} skipped` : "";
  console.log(`${total.passed} passed, ${total.failed} failed${notRun}`);
  process.exit(total.failed === 0 ? 0 : 1);
}

function secondsOf({ name, folder }: TestProcess): number {
  return durations[name] ?? (kindOf(folder).slow ? 60 : 5);
}

function readDurations(): Record<string, number> {
  try {
    return JSON.parse(readFileSync(DURATIONS, "utf8")) as Record<string, number>;
  } catch {
    return FIRST_DURATIONS;
  }
}

function writeDurations(): void {
  if (!existsSync(join(ROOT, ".cache"))) mkdirSync(join(ROOT, ".cache"));
  writeFileSync(DURATIONS, JSON.stringify(durations, null, 2));
}

/** Each failed test with the last lines before it, which hold its error; everything where no test is named. */
function failedTests(output: string): string {
  const lines = output.split("\n");
  const named = lines.flatMap((line, at) =>
    line.startsWith("(fail)") ? lines.slice(Math.max(0, at - LINES_BEFORE_A_FAILURE), at + 1) : [],
  );
  return named.length > 0 ? named.join("\n") : lines.slice(-60).join("\n");
}

/** Prints what begins and, when it is done, its result and duration: two may run at the same time. */
function begin(name: string, progress = ""): (result: string, output: string) => void {
  const began = performance.now();
  console.log(`${name}${progress} …`);
  return (result, output) => {
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(`${name.padEnd(28)} ${result.padEnd(36)} ${seconds.padStart(7)} s`);
    if (output !== "") console.log(output);
  };
}
