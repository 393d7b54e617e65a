import { join } from "node:path";

/** How this program is started again, as another process: the binary, or Bun with the entry point of a checkout. */
export function ownCommandLine(): string[] {
  if (Bun.isStandaloneExecutable) return [process.execPath];
  return [process.execPath, "--no-env-file", join(import.meta.dir, "../main.ts")];
}
