/**
 * Every check of the project, one process after the other, so that a crash in one kind of test does not hide the rest:
 * types, lint, the folders of test/, and last those that need a browser, faults or the compiled binary.
 */
import { join, relative } from "node:path";
import { buildWeb } from "./build-web.ts";
import { ensureChromium } from "./test-chromium.ts";

type Counts = { passed: number; failed: number };

const ROOT = join(import.meta.dir, "..");
const SLOW = ["browser", "faults", "compiled"];
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
if (folders.has("browser")) await ensureChromium();
for (const [folder, files] of folders) await runTests(folder, files);

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
  const { code, output } = await run(command);
  if (code === 0) total.passed++;
  else total.failed++;
  finish(code === 0 ? "ok" : "failed", code === 0 ? "" : output);
}

async function runTests(folder: string, files: readonly string[]): Promise<void> {
  const finish = begin(`test/${folder}`);
  const timeoutMs = SLOW.includes(folder) ? 180_000 : 30_000;
  const paths = files.map((file) => `./${relative(ROOT, join(ROOT, file))}`);
  const { code, output } = await run([process.execPath, "test", "--only-failures", `--timeout=${timeoutMs}`, ...paths]);
  const counts = { passed: countOf(output, "pass"), failed: countOf(output, "fail") };
  // An error outside a test, or a crash, ends the process without a failed test to its name.
  if (code !== 0 && counts.failed === 0) counts.failed = Math.max(1, countOf(output, "errors?"));
  total.passed += counts.passed;
  total.failed += counts.failed;
  finish(`${counts.passed} passed, ${counts.failed} failed`, code === 0 ? "" : output);
}

function countOf(output: string, word: string): number {
  return Number([...output.matchAll(new RegExp(`^ *(\\d+) ${word}$`, "gm"))].at(-1)?.[1] ?? 0);
}

async function run(command: readonly string[]): Promise<{ code: number; output: string }> {
  const child = Bun.spawn([...command], {
    cwd: ROOT,
    stdout: "pipe",
    stderr: "pipe",
    env: ENVIRONMENT,
  });
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, output: `${out}${err}` };
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
