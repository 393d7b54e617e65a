import { join } from "node:path";
import { ROOT } from "../../cli/stoa.ts";

/** Builds the standalone binary of this checkout, unless `bin/test` has built it; await it in `beforeAll`. */
export async function buildBinary(): Promise<string> {
  const { BUILT_STOA } = process.env;
  if (BUILT_STOA !== undefined) return BUILT_STOA;
  const build = Bun.spawn([process.execPath, "bin/build.ts"], { cwd: ROOT, stdout: "ignore", stderr: "pipe" });
  if ((await build.exited) !== 0) throw new Error(await new Response(build.stderr).text());
  return join(ROOT, "dist/stoa");
}
