/** A server in a process of its own, tied to this one by a pipe: when the pipe ends, whatever the reason, so does it. */
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

const STDERR_LINES = 20;

/** `program` is the command line of `stoa` up to its first argument. */
export async function startChild(
  program: string[],
  options: ChildOptions,
): Promise<RunningStoa & { child: ChildProcess }> {
  const [command = "stoa", ...first] = program;
  const where = options.dataDir === undefined ? ["--throw-away"] : ["--data-dir", options.dataDir];
  const child = spawn(command, [...first, "dev", "--json", "--until-stdin-ends", ...where], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...inherited(), LOG_LEVEL: "warn", PORT: "0", MEDIA_UDP_PORT: "0", ...options.env },
  });
  const said: string[] = [];
  createInterface({ input: child.stderr }).on("line", (line) => {
    said.push(line);
    if (said.length > STDERR_LINES) said.shift();
  });
  const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const { url, apiKey, projectId } = await firstLine(child, command, said);
  const stop = async () => {
    // Waited for now: a program whose last act this is must not end before it.
    child.ref();
    child.stdin.end();
    await exited;
  };
  // A program that is done must not wait for the server: the pipe ends with it, and the server with the pipe.
  child.unref();
  for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as { unref?(): void }).unref?.();
  return { url, apiKey, projectId, stop, child };
}

function firstLine(child: ChildProcess, command: string, said: readonly string[]): Promise<RunningStoa> {
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
      reject(new Error(`The server ended (${code}) before it was ready:\n${said.join("\n")}`)),
    );
    if (child.stdout) createInterface({ input: child.stdout }).once("line", (line) => resolve(JSON.parse(line)));
  });
}

/** Settings of the caller are not this server's; what any program needs to run is. */
function inherited(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) =>
    /^(PATH|HOME|TMPDIR|TEMP|TMP|SystemRoot|LANG|LC_ALL|TZ)$/i.test(name),
  );
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? ""]));
}
