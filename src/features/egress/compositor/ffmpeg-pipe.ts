import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";

const MAX_STDERR_CHARACTERS = 2_000;

export type FfmpegPipe = {
  child: ChildProcess;
  inputs: Writable[];
  output: Readable;
  /** Resolves with null, or with ffmpeg's last messages if it failed. */
  ended: Promise<string | null>;
};

export const QUIET = ["-hide_banner", "-nostdin", "-loglevel", "error"];

/** Runs ffmpeg with its first input on descriptor 0, further inputs from descriptor 3 on, and its output on descriptor 1. */
export function pipeThrough(program: string, parameters: readonly string[], inputs = 1): FfmpegPipe {
  const more = Array.from({ length: inputs - 1 }, () => "pipe" as const);
  // It inherits the compositor's low priority.
  const child = spawn(program, [...parameters], { stdio: ["pipe", "pipe", "pipe", ...more] });
  let stderr = "";
  child.stderr?.on("data", (bytes: Buffer) => {
    stderr = (stderr + bytes.toString()).slice(-MAX_STDERR_CHARACTERS);
  });
  const writable = [child.stdin, ...child.stdio.slice(3)] as Writable[];
  // If ffmpeg ends with unread input, its exit tells the reason.
  for (const input of writable) input.on("error", () => {});
  const ended = new Promise<string | null>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) =>
      resolve(code === 0 ? null : stderr.trim() || `ended with ${signal ?? `exit code ${code}`}`),
    );
  });
  return { child, inputs: writable, output: child.stdout as Readable, ended };
}
