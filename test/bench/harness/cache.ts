import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** The folder in which servers for comparison are installed. Nothing of them touches the system or the repository. */
export function cacheFolder(name: string): string {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "stoa-bench", name);
  mkdirSync(folder, { recursive: true });
  return folder;
}

export async function run(command: string[], cwd: string): Promise<string> {
  const child = Bun.spawn(command, { cwd, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`${command[0]} failed: ${err.slice(-500)}`);
  return out;
}

/** The first line that a server prints once it listens. */
export async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    if (text.includes("\n")) break;
  }
  return text.split("\n")[0] ?? "";
}
