import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export type FfmpegRun = { done: Promise<void>; cancel(): void };

const KEPT_OF_STDERR = 2_000;

/** Null when none is installed. */
export const findFfmpeg = (): string | null => Bun.which("ffmpeg", { PATH: process.env.PATH ?? "" });

/** A child that yields to everything else on the machine; `progress` is told how far into the film it is. */
export function runFfmpeg(
  program: string,
  parameters: readonly string[],
  cwd: string,
  progress: (ms: number) => void,
): FfmpegRun {
  const child = spawn("nice", ["-n", "19", program, ...parameters], { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let complaint = "";
  child.stderr.on("data", (bytes: Buffer) => {
    complaint = (complaint + bytes.toString()).slice(-KEPT_OF_STDERR);
  });
  createInterface({ input: child.stdout }).on("line", (line) => {
    const microseconds = /^out_time_us=(\d+)$/.exec(line)?.[1];
    if (microseconds !== undefined) progress(Number(microseconds) / 1_000);
  });
  const done = new Promise<void>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`ffmpeg: ${complaint.trim() || `ended with ${signal ?? `exit code ${code}`}`}`));
    });
  });
  return { done, cancel: () => void child.kill("SIGKILL") };
}
