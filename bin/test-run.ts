import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export type FileResult = { passed: number; failed: number };
export type RunOptions = { timeoutMs: number; env: Record<string, string | undefined>; ownNetwork?: boolean };
/** `cpuSeconds`: what it took of the processors, and everything that it started and saw end. */
type Run = { code: number; output: string; cpuSeconds: number };
type TestRun = Run & { files: Map<string, FileResult> };

/** Runs test files in one process of their own; the counts come from the runner's report, file by file. */
export async function runFiles(
  root: string,
  files: readonly string[],
  { timeoutMs, env, ownNetwork = false }: RunOptions,
): Promise<TestRun> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-report-"));
  const report = join(folder, "junit.xml");
  const reporting = ["--reporter=junit", `--reporter-outfile=${report}`];
  const paths = files.map((file) => `./${file}`);
  const ran = await run(
    [
      ...(ownNetwork ? await networkOfItsOwn() : []),
      process.execPath,
      "test",
      "--only-failures",
      `--timeout=${timeoutMs}`,
      ...reporting,
      ...paths,
    ],
    root,
    env,
  );
  const results = existsSync(report) ? readReport(readFileSync(report, "utf8")) : new Map<string, FileResult>();
  rmSync(folder, { recursive: true });
  // A file that broke before its first test, or whose process crashed, has no line in the report.
  for (const file of files) if (!results.has(file) && ran.code !== 0) results.set(file, { passed: 0, failed: 1 });
  return { ...ran, files: results };
}

/** In front of a command, where the system lets us: nothing of the network there is seen outside, and it ends with it. */
async function networkOfItsOwn(): Promise<string[]> {
  const inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];
  const works = process.platform === "linux" && Bun.which("unshare") !== null && Bun.which("ip") !== null;
  return works && (await Bun.spawn([...inside, "true"], { stderr: "ignore" }).exited) === 0 ? inside : [];
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
): Promise<Run> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe", env });
  const said: string[] = [];
  const read = Promise.all([child.stdout, child.stderr].map((stream) => gather(stream, said)));
  const code = await child.exited;
  // A process that a test forgot holds the pipe open for as long as it lives: what is said by now is all.
  await Promise.race([read, Bun.sleep(PIPE_GRACE_MS)]);
  const cpuSeconds = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1_000_000;
  return { code, output: said.join(""), cpuSeconds };
}

const PIPE_GRACE_MS = 5_000;

async function gather(stream: ReadableStream<Uint8Array>, into: string[]): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of stream) into.push(decoder.decode(chunk, { stream: true }));
}
