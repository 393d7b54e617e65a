/** A server in a process of its own, which ends when its pipe to this process ends, for any reason. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export type RunningStoa = {
  /** `http://127.0.0.1:…` */
  url: string;
  apiKey: string;
  projectId: string;
  stop(): Promise<void>;
};

export type ChildOptions = { dataDir?: string; env: Record<string, string> };

const MAX_STDERR_LINES = 20;

/** `program` is the command line of `stoa` up to its first argument. */
export async function startChildServer(
  program: string[],
  options: ChildOptions,
): Promise<RunningStoa & { child: ChildProcess }> {
  const [command = "stoa", ...first] = program;
  const where = options.dataDir === undefined ? ["--throw-away"] : ["--data-dir", options.dataDir];
  const child = spawn(command, [...first, "dev", "--json", "--until-stdin-ends", ...where], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...inherited(), LOG_LEVEL: "warn", PORT: "0", MEDIA_UDP_PORT: "0", ...options.env },
  });
  const stderrLines: string[] = [];
  createInterface({ input: child.stderr }).on("line", (line) => {
    stderrLines.push(line);
    if (stderrLines.length > MAX_STDERR_LINES) stderrLines.shift();
  });
  const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const { url, apiKey, projectId } = await firstLine(child, command, stderrLines);
  const stop = async () => {
    // A program that exits after this call must wait for the server.
    child.ref();
    child.stdin.end();
    await exited;
  };
  // The server must not keep a finished program alive: it ends with the pipe.
  child.unref();
  for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as { unref?(): void }).unref?.();
  return { url, apiKey, projectId, stop, child };
}

function firstLine(child: ChildProcess, command: string, stderrLines: readonly string[]): Promise<RunningStoa> {
  return new Promise((resolve, reject) => {
    child.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") reject(error);
      else
        reject(
          new Error(
            `There is no program ${command}. Install Stoa, or name its binary: startStoa({ binary }) or STOA_BINARY.`,
          ),
        );
    });
    child.once("close", (code) =>
      reject(new Error(`The server ended (${code}) before it was ready:\n${stderrLines.join("\n")}`)),
    );
    if (child.stdout) createInterface({ input: child.stdout }).once("line", (line) => resolve(JSON.parse(line)));
  });
}

/** Passes on the variables that every program needs, but not the caller's settings. */
function inherited(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) =>
    /^(PATH|HOME|TMPDIR|TEMP|TMP|SystemRoot|LANG|LC_ALL|TZ)$/i.test(name),
  );
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? ""]));
}
