import { accessSync, constants, realpathSync, statSync } from "node:fs";
import { Command } from "commander";
import type { Config } from "../../kernel/config/index.ts";
import { isRunning, runningServer } from "../../kernel/data-directory/data-lock.ts";
import { readUpgradeNote, writeUpgradeNote } from "../../upgrade/note.ts";
import { addConfigOptions, configFrom } from "../config-options.ts";
import { CommandFailure } from "../failure.ts";
import { print } from "../print.ts";

const HELP = `
The server starts the new program beside itself, hands over the data and the ports once that has checked both, and keeps
its calls until they end. If the new program cannot take over, the server goes on and this command says why. Settings of
the environment stay as they are; a change of them needs a restart. Only on Linux.`;

const CHECK_EVERY_MS = 100;

export function upgradeCommand(argv: readonly string[]): Command {
  const upgrade = new Command("upgrade")
    .description("replace the program of the running server while its calls go on")
    .option("--binary <path>", "the new program (default: the one at the path of the running one)")
    .addHelpText("after", HELP)
    .action(async (options) => {
      const { config } = configFrom(options);
      requireAccess(config);
      const { pid, version } = requireRunning(config);
      const binary = options.binary === undefined ? null : realProgram(options.binary);
      request(config, pid, binary);
      const after = await outcome(config.DATA_DIR, pid);
      print(`upgraded from ${version} to ${after.version}, process ${after.pid}`);
    });
  return addConfigOptions(upgrade, argv, ["DATA_DIR"]);
}

/** To any other user a server looks as if it did not run. */
function requireAccess({ DATA_DIR }: Config): void {
  try {
    accessSync(DATA_DIR, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EACCES")
      throw new CommandFailure(`${DATA_DIR} belongs to another user: run the command as the user who runs the server.`);
  }
}

function requireRunning({ DATA_DIR }: Config): { pid: number; version: string } {
  const running = runningServer(DATA_DIR);
  if (running === null) throw new CommandFailure(`no server is running on ${DATA_DIR}.`);
  const { pid, version } = running;
  if (running.role === "server" && running.upgrades) return { pid, version };
  if (running.role === "standby" || running.isMember)
    throw new CommandFailure(
      "the server belongs to a cluster: restart its members one after another, and a standby takes over.",
    );
  throw new CommandFailure(
    running.upgrades === undefined
      ? `the server's version ${version} cannot hand over its calls: restart it once, later upgrades keep them.`
      : `\`stoa dev\` belongs to its terminal and does not hand over: stop it there with Ctrl-C and start it again. The data in ${DATA_DIR} stay.`,
  );
}

function realProgram(path: string): string {
  let program: string;
  try {
    program = realpathSync(path);
  } catch {
    throw new CommandFailure(`there is no ${path}.`, true);
  }
  if (!statSync(program).isFile()) throw new CommandFailure(`${path} is not a file.`, true);
  try {
    accessSync(program, constants.X_OK);
  } catch {
    throw new CommandFailure(`${path} is not executable. Make it executable with chmod +x.`, true);
  }
  return program;
}

function request({ DATA_DIR }: Config, pid: number, binary: string | null): void {
  const note = readUpgradeNote(DATA_DIR);
  if (note?.state === "running" && note.pid === pid)
    throw new CommandFailure("the server is being upgraded already. Wait until that is over.");
  try {
    writeUpgradeNote(DATA_DIR, { state: "requested", binary });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    throw new CommandFailure(`the disk of ${DATA_DIR} is full.`);
  }
  process.kill(pid, "SIGUSR2");
}

async function outcome(dataDir: string, pid: number): Promise<{ pid: number; version: string }> {
  for (;;) {
    const note = readUpgradeNote(dataDir);
    if (note === null) throw new CommandFailure("the server could not write down the outcome; its log says more.");
    if (note.state === "done") return note;
    if (note.state === "failed") throw new CommandFailure(`the server was not upgraded: ${note.reason}`);
    if (!isRunning(pid)) throw new CommandFailure("the server ended before it was upgraded; its log says why.");
    await Bun.sleep(CHECK_EVERY_MS);
  }
}
