import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { tailOf } from "../../../kernel/output-tail.ts";

export type FfmpegRun = { done: Promise<void>; cancel(): void };

/** Null when ffmpeg is not installed. */
export const findFfmpeg = (): string | null => Bun.which("ffmpeg", { PATH: process.env.PATH ?? "" });

/**
 * Limits frames that a participant sent: a frame of a few bytes may claim 16,384 × 16,384 pixels, and a decoder keeps several
 * frames in memory.
 */
export const BOUNDED_FRAMES: readonly string[] = ["-max_pixels", String(4_096 * 4_096)];

/** Runs ffmpeg at the lowest priority; `progress` gets the position in the output. */
export function runFfmpeg(
  program: string,
  parameters: readonly string[],
  cwd: string,
  progress: (ms: number) => void,
): FfmpegRun {
  const child = spawn("nice", ["-n", "19", program, ...parameters], { cwd, stdio: ["ignore", "pipe", "pipe"] });
  const stderr = tailOf(child.stderr);
  createInterface({ input: child.stdout }).on("line", (line) => {
    const microseconds = /^out_time_us=(\d+)$/.exec(line)?.[1];
    if (microseconds !== undefined) progress(Number(microseconds) / 1_000);
  });
  const done = new Promise<void>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`ffmpeg: ${stderr() || `ended with ${signal ?? `exit code ${code}`}`}`));
    });
  });
  return { done, cancel: () => void child.kill("SIGKILL") };
}
