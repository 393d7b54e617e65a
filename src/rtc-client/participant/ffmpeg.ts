import { spawn } from "node:child_process";

/** Returns the output of ffmpeg; `path` is the file name in error messages. */
export function runFfmpeg(args: string[], path: string): Promise<Uint8Array> {
  const child = spawn("ffmpeg", ["-loglevel", "error", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const [output, errors]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on("data", (data) => output.push(data));
  child.stderr.on("data", (data) => errors.push(data));
  return new Promise((resolve, reject) => {
    child.once("error", () =>
      reject(new Error(`${path} needs ffmpeg to be read; install it, or convert the file first.`)),
    );
    child.once("close", (code) =>
      code === 0
        ? resolve(Buffer.concat(output))
        : reject(new Error(`${path} cannot be read: ${Buffer.concat(errors).toString().trim()}`)),
    );
  });
}
