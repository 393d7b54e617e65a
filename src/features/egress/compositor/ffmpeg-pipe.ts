import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { tailOf } from "../../../kernel/output-tail.ts";

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
  const stderr = tailOf(child.stderr as Readable);
  const writable = [child.stdin, ...child.stdio.slice(3)] as Writable[];
  // If ffmpeg ends with unread input, its exit tells the reason.
  for (const input of writable) input.on("error", () => {});
  const ended = new Promise<string | null>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) =>
      resolve(code === 0 ? null : stderr() || `ended with ${signal ?? `exit code ${code}`}`),
    );
  });
  return { child, inputs: writable, output: child.stdout as Readable, ended };
}
