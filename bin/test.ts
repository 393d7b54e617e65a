/**
 * Every check of the project, one process after the other, so that a crash in one kind of test does not hide the rest:
 * types, lint, the folders of test/, and last those that need a browser, faults or the compiled binary.
 */
import { join } from "node:path";
import { buildWeb } from "./build-web.ts";
import { ensurePrograms } from "./test-programs.ts";
import { type FileResult, run, runFiles } from "./test-run.ts";

type Counts = { passed: number; failed: number };

const ROOT = join(import.meta.dir, "..");
const SLOW = ["browser", "faults", "compiled", "ops"];
const NOT_TESTS = ["bench", "harness"];
/** Tests that start a process of their own find `bun` on the PATH, also where nobody has installed it. */
const ENVIRONMENT = { ...process.env, NO_COLOR: "1", PATH: `${join(ROOT, "bin")}:${process.env.PATH}` };
const [filter] = process.argv.slice(2);

const total: Counts = { passed: 0, failed: 0 };

if (filter === undefined) {
  await check("types", ["node_modules/.bin/tsc", "--noEmit"]);
  await check("lint", ["node_modules/.bin/biome", "check", "--diagnostic-level=error", "."]);
}
const folders = testFolders(filter);
if (folders.size === 0 && filter !== undefined) {
  console.log(`There is no test file whose path has "${filter}".`);
  total.failed++;
}
await buildWeb(ROOT, join(ROOT, "dist/web"));
for (const [folder, files] of folders) {
  await ensurePrograms(folder);
  await runTests(folder, files);
}

console.log(`\n${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);

/** Test files by the folder of test/ they stand in; the slow kinds come last. */
function testFolders(part = ""): Map<string, string[]> {
  const files = [...new Bun.Glob("test/**/*.test.{ts,tsx}").scanSync({ cwd: ROOT })].filter((file) =>
    file.includes(part),
  );
  const byFolder = Map.groupBy(files.sort(), (file) => {
    const [, folder = "", rest] = file.split("/");
    return rest === undefined ? "." : folder;
  });
  const rank = (folder: string) => SLOW.indexOf(folder);
  const ordered = [...byFolder].filter(([folder]) => !NOT_TESTS.includes(folder)).sort(([a], [b]) => rank(a) - rank(b));
  return new Map(ordered);
}

async function check(name: string, command: string[]): Promise<void> {
  const finish = begin(name);
  const { code, output } = await run(command, ROOT, ENVIRONMENT);
  if (code === 0) total.passed++;
  else total.failed++;
  finish(code === 0 ? "ok" : "failed", code === 0 ? "" : output);
}

/**
 * A file that fails is run once more by itself. Browsers and killed processes on a busy machine now and then miss a
 * deadline; a fault in the code fails both times. What passed only then is named.
 */
async function runTests(folder: string, files: readonly string[]): Promise<void> {
  const finish = begin(`test/${folder}`);
  const options = { timeoutMs: SLOW.includes(folder) ? 180_000 : 30_000, env: ENVIRONMENT };
  const first = await runFiles(ROOT, files, options);
  const results = new Map(first.files);
  const unsteady: string[] = [];
  let output = "";
  for (const [file, { failed }] of first.files) {
    if (failed === 0) continue;
    const again = await runFiles(ROOT, [file], options);
    results.set(file, again.files.get(file) ?? { passed: 0, failed: 1 });
    if (again.code === 0) unsteady.push(file);
    else output += again.output;
  }
  const counts = sum(results.values());
  // An error outside any file ends the process without a failed test to its name.
  if (first.code !== 0 && counts.failed === 0 && unsteady.length === 0) counts.failed = 1;
  total.passed += counts.passed;
  total.failed += counts.failed;
  if (counts.failed > 0 && output === "") output = first.output;
  if (unsteady.length > 0) output += `passed only on the second run: ${unsteady.join(", ")}\n${failures(first.output)}`;
  finish(`${counts.passed} passed, ${counts.failed} failed`, output);
}

function sum(results: Iterable<FileResult>): Counts {
  const counts: Counts = { passed: 0, failed: 0 };
  for (const { passed, failed } of results) {
    counts.passed += passed;
    counts.failed += failed;
  }
  return counts;
}

function failures(output: string): string {
  return output
    .split("\n")
    .filter((line) => line.startsWith("(fail)"))
    .join("\n");
}

/** Names what is running before it runs, and its result and duration after. */
function begin(name: string): (result: string, output: string) => void {
  const startedAt = performance.now();
  process.stdout.write(`${name.padEnd(24)} `);
  return (result, output) => {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`${result.padEnd(28)} ${seconds.padStart(7)} s`);
    if (output !== "") console.log(output);
  };
}
