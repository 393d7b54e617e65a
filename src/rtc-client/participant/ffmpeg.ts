import { spawn } from "node:child_process";

/** What ffmpeg writes to its output; `path` is the file that this is about. */
export function runFfmpeg(args: string[], path: string): Promise<Uint8Array> {
  const child = spawn("ffmpeg", ["-loglevel", "error", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const [out, said]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on("data", (data) => out.push(data));
  child.stderr.on("data", (data) => said.push(data));
  return new Promise((resolve, reject) => {
    child.once("error", () =>
      reject(new Error(`${path} needs ffmpeg to be read; install it, or convert the file first.`)),
    );
    child.once("close", (code) =>
      code === 0
        ? resolve(Buffer.concat(out))
        : reject(new Error(`${path} cannot be read: ${Buffer.concat(said).toString().trim()}`)),
    );
  });
}
