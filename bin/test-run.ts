import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type FileResult = { passed: number; failed: number };
type TestRun = { code: number; output: string; files: Map<string, FileResult> };

/** Runs test files in one process of their own; the counts come from the runner's report, file by file. */
export async function runFiles(
  root: string,
  files: readonly string[],
  { timeoutMs, env }: { timeoutMs: number; env: Record<string, string | undefined> },
): Promise<TestRun> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-report-"));
  const report = join(folder, "junit.xml");
  const reporting = ["--reporter=junit", `--reporter-outfile=${report}`];
  const paths = files.map((file) => `./${file}`);
  const { code, output } = await run(
    [process.execPath, "test", "--only-failures", `--timeout=${timeoutMs}`, ...reporting, ...paths],
    root,
    env,
  );
  const results = existsSync(report) ? readReport(readFileSync(report, "utf8")) : new Map<string, FileResult>();
  rmSync(folder, { recursive: true });
  // A file that broke before its first test, or whose process crashed, has no line in the report.
  for (const file of files) if (!results.has(file) && code !== 0) results.set(file, { passed: 0, failed: 1 });
  return { code, output, files: results };
}

function readReport(xml: string): Map<string, FileResult> {
  const results = new Map<string, FileResult>();
  for (const [, attributes = ""] of xml.matchAll(/<testsuite ([^>]*)>/g)) {
    const of = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1] ?? "";
    // Suites within a file have a line of their own; the file's names the file itself.
    if (of("name") !== of("file")) continue;
    const failed = Number(of("failures")) + Number(of("errors") || 0);
    results.set(of("file"), { passed: Number(of("tests")) - failed, failed });
  }
  return results;
}

export async function run(
  command: readonly string[],
  cwd: string,
  env: Record<string, string | undefined>,
): Promise<{ code: number; output: string }> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe", env });
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, output: `${out}${err}` };
}
