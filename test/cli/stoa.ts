import { join } from "node:path";

export const ROOT = join(import.meta.dir, "../..");

const { BUILT_STOA } = process.env;

/** The command line for `startStoa`. */
export const FROM_SOURCE: readonly string[] = [process.execPath, "--no-env-file", join(ROOT, "src/main.ts")];

/** The binary, if `bin/test` has built it from these sources: it starts in a third of the time. */
export const PROGRAM: readonly string[] = BUILT_STOA === undefined ? FROM_SOURCE : [BUILT_STOA];

export type Finished = { code: number; out: string; err: string };

/** Runs the command line in an otherwise empty environment, as a user would, and waits for its end. */
export async function stoa(
  args: readonly string[],
  options: { env?: Record<string, string>; cwd?: string; stdin?: string } = {},
): Promise<Finished> {
  const child = Bun.spawn([...PROGRAM, ...args], {
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", ...options.env },
    cwd: options.cwd ?? ROOT,
    stdin: options.stdin === undefined ? "ignore" : new Blob([options.stdin]),
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, out, err] = await Promise.all([
    child.exited,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, out, err };
}

export type RunningStoa = {
  url: string;
  /** Standard output up to the line with the address. */
  out: string;
  child: Bun.Subprocess<"ignore", "pipe", "pipe">;
};

/** Servers of tests end before a warm-up has paid off; those of benches are as they are installed. */
export const WARM_UP = { MEDIA_WARM_UP: String(process.env.NODE_ENV !== "test") };

/** Starts `stoa serve` or `stoa dev` and waits until its output shows the first address. */
export async function startStoa(
  command: readonly string[],
  options: { env?: Record<string, string>; cwd?: string } = {},
): Promise<RunningStoa> {
  const child = Bun.spawn([...command], {
    env: { PATH: process.env.PATH ?? "", HOME: "/nonexistent", ...WARM_UP, ...options.env },
    cwd: options.cwd ?? ROOT,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const decoder = new TextDecoder();
  let out = "";
  for await (const chunk of child.stdout) {
    out += decoder.decode(chunk, { stream: true });
    const url = /https?:\/\/[\d.]+:\d+/.exec(out)?.[0];
    if (url !== undefined && out.endsWith("\n")) return { url, out, child };
  }
  throw new Error(`it ended with ${await child.exited} before it listened: ${await new Response(child.stderr).text()}`);
}
