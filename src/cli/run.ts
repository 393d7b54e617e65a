import { CommanderError } from "commander";
import { ConfigError } from "../kernel/config/index.ts";
import { CommandFailure } from "./failure.ts";
import { createProgram } from "./program.ts";

const FAILURE = 1;
const WRONG_USAGE = 2;

/** Runs the command line. A failure exits at once: what was started before it must not keep the process alive. */
export async function run(argv: readonly string[]): Promise<void> {
  // Data, keys and backups are the owner's alone, whatever the shell or the folder would allow others.
  process.umask(0o077);
  try {
    await createProgram(argv).parseAsync(argv, { from: "user" });
  } catch (error) {
    process.exit(report(error));
  }
}

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE; // commander has printed it
  if (error instanceof ConfigError) {
    const [first, ...rest] = error.problems;
    console.error(
      rest.length === 0 ? `stoa: ${first}` : ["stoa: the configuration is wrong:", ...error.problems].join("\n  "),
    );
    console.error("Run `stoa config doc` for every variable and its range.");
    return WRONG_USAGE;
  }
  if (error instanceof CommandFailure) {
    console.error(`stoa: ${error.message}`);
    return error.wrongUsage ? WRONG_USAGE : FAILURE;
  }
  console.error(error instanceof Error ? `stoa: ${error.message}\n${error.stack ?? ""}` : `stoa: ${String(error)}`);
  return FAILURE;
}
