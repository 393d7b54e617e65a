import { join } from "node:path";

export const ROOT = join(import.meta.dir, "../..");

export type Finished = { code: number; out: string; err: string };

/** Runs the command line from source in an otherwise empty environment, as a user would, and waits for its end. */
export async function stoa(
  args: readonly string[],
  options: { env?: Record<string, string>; cwd?: string; stdin?: string } = {},
): Promise<Finished> {
  const child = Bun.spawn([process.execPath, "--no-env-file", join(ROOT, "src/main.ts"), ...args], {
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
