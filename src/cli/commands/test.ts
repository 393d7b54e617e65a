import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { startChild } from "../../start/child-server.ts";

const HELP = `
The command gets STOA_URL, STOA_API_KEY and STOA_WS (the address of the RTC socket). Its exit code is passed on.

  stoa test -- npx playwright test
  stoa test -- sh -c 'curl -s $STOA_URL/readyz'`;

export function testCommand(): Command {
  return new Command("test")
    .description("run a command beside a server of its own, which is thrown away afterwards")
    .argument("<command...>", "what to run, after --")
    .addHelpText("after", HELP)
    .action(async (command: string[]) => {
      const server = await startChild(ownCommandLine(), { env: {} });
      const environment = {
        STOA_URL: server.url,
        STOA_API_KEY: server.apiKey,
        STOA_WS: `${server.url.replace(/^http/, "ws")}/v1/rtc`,
      };
      // Should this process be killed, nobody but the server can end the command: it is told whom.
      const tell = (line: string) => server.child.stdin?.write(`${line}\n`);
      const code = await runCommand(command, environment, (pid) => tell(`command ${pid}`));
      tell("done");
      await server.stop();
      process.exit(code);
    });
}

function ownCommandLine(): string[] {
  if (Bun.isStandaloneExecutable) return [process.execPath];
  return [process.execPath, "--no-env-file", join(import.meta.dir, "../../main.ts")];
}

async function runCommand(
  [program = "", ...args]: string[],
  environment: Record<string, string>,
  onStart: (pid: number) => void,
): Promise<number> {
  const child = spawn(program, args, { stdio: "inherit", env: { ...process.env, ...environment } });
  // Ctrl-C reaches the command by itself; what was sent to this process alone is passed on. It ends when the command does.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  return new Promise((resolve) => {
    // At once: by its next turn of the loop this process may have been killed, and the command would go on for ever.
    if (child.pid !== undefined) onStart(child.pid);
    child.once("error", (error: NodeJS.ErrnoException) => {
      console.error(`stoa: ${program}: ${error.code === "ENOENT" ? "there is no such program" : error.message}`);
      resolve(error.code === "ENOENT" ? 127 : 126);
    });
    child.once("close", (code, signal) => resolve(code ?? 128 + (signal ? constants.signals[signal] : 0)));
  });
}
