import { spawn } from "node:child_process";
import { constants } from "node:os";
import type { Writable } from "node:stream";

/** Waits for a line on its fourth descriptor and becomes the command; without one it ends, and nothing has run. */
const AFTER_A_LINE = 'read -r go <&3 && exec 3<&- && exec "$@"';

/**
 * Runs a command with our own input and output, and answers with its exit code. It begins when `announce` has told somebody
 * its process id: whenever this process is killed, either the command has not begun, or somebody knows whom to end.
 */
export async function runCommand(
  command: readonly string[],
  environment: Record<string, string>,
  announce: (pid: number) => Promise<void>,
): Promise<number> {
  // The shell would say it in its own words, and name a line of its own.
  const [name = ""] = command;
  if (!name.includes("/") && Bun.which(name) === null) return missing(name);
  const env = { ...process.env, ...environment };
  const [program = "", ...args] = process.platform === "win32" ? command : waiting(command, env);
  const child = spawn(program, args, { stdio: ["inherit", "inherit", "inherit", "pipe"], env });
  // Ctrl-C reaches the command by itself; what was sent to this process alone is passed on. It ends when the command does.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  const ended = new Promise<number>((resolve) => {
    child.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return resolve(missing(program));
      console.error(`stoa: ${program}: ${error.message}`);
      resolve(126);
    });
    child.once("close", (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
  if (child.pid !== undefined) {
    const go = child.stdio[3] as Writable;
    // Who is interrupted before the line comes reads it no more.
    go.on("error", () => {});
    await announce(child.pid);
    go.end("go\n");
  }
  return ended;
}

/** As a shell answers for a program that it does not find. */
function missing(program: string): number {
  console.error(`stoa: ${program}: there is no such program`);
  return 127;
}

/** A shell has no place for variables that it could not name, such as `npm_config_//host/:key`: they go around it. */
function waiting(command: readonly string[], env: Record<string, string | undefined>): string[] {
  const unnamed = Object.entries(env).filter(([name]) => !/^[A-Za-z_]\w*$/.test(name));
  const around = unnamed.length === 0 ? [] : ["env", ...unnamed.map(([name, value]) => `${name}=${value}`)];
  return ["sh", "-c", AFTER_A_LINE, "stoa", ...around, ...command];
}
