import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Log } from "./log.ts";
import { tailOf } from "./output-tail.ts";

/** The path from which this program was started. A newer program may be there by now; Linux then marks the path as deleted. */
export const programPath = (): string => process.execPath.replace(/ \(deleted\)$/, "");

/**
 * The command line that starts this program again in another process, even if its file has been replaced: the binary, or Bun with
 * the entry point of a checkout.
 */
export function ownCommandLine(): string[] {
  if (Bun.isStandaloneExecutable) return [process.platform === "linux" ? `/proc/${process.pid}/exe` : process.execPath];
  return [process.execPath, "--no-env-file", join(import.meta.dir, "../main.ts")];
}

/**
 * When memory runs out, the kernel adds this share, in thousandths, to the process's memory use before it chooses a process to
 * kill.
 */
const OOM_SCORE = "500";

/** For a process that works on media; its children inherit the score. */
export function endFirstWithoutMemory(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", OOM_SCORE);
  } catch {
    // Only Linux has this file.
  }
}

export type MediaProcess<To> = {
  send(message: To): void;
  kill(): void;
};

/** Lower than the priority of calls. */
const NICENESS = "5";

/** The process gets only the parts of this one's environment that it needs, because the environment contains secrets. */
function environment(): Record<string, string> {
  const { PATH = "", LANG = "C.UTF-8", TMPDIR } = process.env;
  return { PATH, LANG, ...(TMPDIR === undefined ? {} : { TMPDIR }), BUN_GC_TIMER_INTERVAL: "1000" };
}

/**
 * Starts this program as a process that works on media, and exchanges lines of JSON with it. `onClosed` is called once, when the
 * process has ended for any reason.
 */
export function startMediaProcess<To, From>(
  log: Log,
  command: string,
  onMessage: (message: From) => void,
  onClosed: (error: string) => void,
): MediaProcess<To> {
  const child = spawn("nice", ["-n", NICENESS, ...ownCommandLine(), command], {
    stdio: ["pipe", "pipe", "pipe"],
    env: environment(),
  });
  const stderr = tailOf(child.stderr);
  child.stdin.on("error", () => {});
  createInterface({ input: child.stdout }).on("line", (line) => {
    try {
      onMessage(JSON.parse(line) as From);
    } catch (err) {
      log.error({ err, command }, "media process: message not handled");
    }
  });
  let isClosed = false;
  const closed = (error: string) => {
    if (!isClosed) onClosed(error);
    isClosed = true;
  };
  child.on("error", (error) => closed(error.message));
  child.on("close", (code, signal) => closed(stderr() || `ended with ${signal ?? `exit code ${code}`}`));
  return {
    send(message) {
      if (child.stdin.writable) child.stdin.write(`${JSON.stringify(message)}\n`);
    },
    kill: () => void child.kill("SIGKILL"),
  };
}
