import { spawn } from "node:child_process";
import { constants } from "node:os";
import type { Writable } from "node:stream";
import { printError } from "./print.ts";

/** A shell script that waits for a line on descriptor 3 before it becomes the command. Without the line, nothing runs. */
const WAIT_FOR_LINE = 'read -r go <&3 && exec 3<&- && exec "$@"';

/**
 * Runs a command with this process's input and output and resolves to its exit code. The command starts after `announce`
 * has passed its process id to the server, so that the server can end it whenever this process is killed.
 */
export async function runCommand(
  command: readonly string[],
  environment: Record<string, string>,
  announce: (pid: number) => Promise<void>,
): Promise<number> {
  // The shell's own message would contain a line number of the script above, which means nothing to the user.
  const [name = ""] = command;
  if (!name.includes("/") && Bun.which(name) === null) return notFound(name);
  const env = { ...process.env, ...environment };
  const [program = "", ...args] = process.platform === "win32" ? command : afterLine(command, env);
  const child = spawn(program, args, { stdio: ["inherit", "inherit", "inherit", "pipe"], env });
  // The terminal sends Ctrl-C to the command too; SIGTERM is passed on. This process ends when the command does.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  const ended = new Promise<number>((resolve) => {
    child.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return resolve(notFound(program));
      printError(`stoa: ${program}: ${error.message}`);
      resolve(126);
    });
    child.once("close", (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
  if (child.pid !== undefined) {
    const go = child.stdio[3] as Writable;
    // A command that was interrupted earlier no longer reads the line.
    go.on("error", () => {});
    await announce(child.pid);
    go.end("go\n");
  }
  return ended;
}

/** Exits with the code of a shell for a missing program. */
function notFound(program: string): number {
  printError(`stoa: ${program}: there is no such program`);
  return 127;
}

/** A shell drops variables whose names it does not allow, such as `npm_config_//host/:key`; `env` passes them on. */
function afterLine(command: readonly string[], env: Record<string, string | undefined>): string[] {
  const unnamed = Object.entries(env).filter(([name]) => !/^[A-Za-z_]\w*$/.test(name));
  const restored = unnamed.length === 0 ? [] : ["env", ...unnamed.map(([name, value]) => `${name}=${value}`)];
  return ["sh", "-c", WAIT_FOR_LINE, "stoa", ...restored, ...command];
}
