import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

type FileResult = { passed: number; failed: number; seconds: number };
type RunOptions = {
  timeoutMs: number;
  env: Record<string, string | undefined>;
  ownNetwork?: boolean;
  /** A command that runs the rest of its command line. */
  prefix?: string[];
};
/** `cpuSeconds` includes the processes that the command has started and waited for, so most servers and browsers. */
type Run = { code: number; output: string; cpuSeconds: number };

/** Runs test files in one process of their own; the counts come from the runner's report, file by file. */
export async function runFiles(
  root: string,
  files: readonly string[],
  { timeoutMs, env, ownNetwork = false, prefix = [] }: RunOptions,
): Promise<Run & { files: Map<string, FileResult> }> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-report-"));
  const report = join(folder, "junit.xml");
  const options = ["--only-failures", `--timeout=${timeoutMs}`, "--reporter=junit", `--reporter-outfile=${report}`];
  const namespace = ownNetwork ? await networkNamespace() : [];
  const command = [...prefix, ...namespace, process.execPath, "test", ...options, ...files.map((file) => `./${file}`)];
  const ran = await run(command, root, env);
  const results = existsSync(report) ? readReport(readFileSync(report, "utf8")) : new Map<string, FileResult>();
  rmSync(folder, { recursive: true });
  // A file that broke before its first test, or whose process crashed, has no line in the report.
  for (const file of files)
    if (!results.has(file) && ran.code !== 0) results.set(file, { passed: 0, failed: 1, seconds: 0 });
  return { ...ran, files: results };
}

/** The prefix of a command that runs in a network namespace of its own; empty where the system does not allow it. */
async function networkNamespace(): Promise<string[]> {
  const prefix = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"];
  const isLikely = process.platform === "linux" && Bun.which("unshare") !== null && Bun.which("ip") !== null;
  return isLikely && (await Bun.spawn([...prefix, "true"], { stderr: "ignore" }).exited) === 0 ? prefix : [];
}

function readReport(xml: string): Map<string, FileResult> {
  const results = new Map<string, FileResult>();
  for (const [, attributes = ""] of xml.matchAll(/<testsuite ([^>]*)>/g)) {
    const attribute = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(attributes)?.[1] ?? "";
    // A `describe` within a file has a line of its own; only the file's line names the file itself.
    if (attribute("name") !== attribute("file")) continue;
    const failed = Number(attribute("failures")) + Number(attribute("errors") || 0);
    results.set(attribute("file"), {
      passed: Number(attribute("tests")) - failed - Number(attribute("skipped") || 0),
      failed,
      seconds: Number(attribute("time")),
    });
  }
  return results;
}

export async function run(
  command: readonly string[],
  cwd: string,
  env: Record<string, string | undefined>,
): Promise<Run> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe", env });
  const output: string[] = [];
  const read = Promise.all([child.stdout, child.stderr].map((stream) => collect(stream, output)));
  const code = await child.exited;
  // A process that a test left behind holds the pipe open for as long as it lives.
  await Promise.race([read, Bun.sleep(PIPE_GRACE_MS)]);
  const cpuSeconds = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1e6;
  return { code, output: output.join(""), cpuSeconds };
}

const PIPE_GRACE_MS = 5_000;

async function collect(stream: ReadableStream<Uint8Array>, into: string[]): Promise<void> {
  const decoder = new TextDecoder();
  for await (const chunk of stream) into.push(decoder.decode(chunk, { stream: true }));
}
