import { Command } from "commander";
import { VERSION } from "../kernel/version.ts";
import { adminCommand } from "./commands/admin.ts";
import { backupCommand } from "./commands/backup.ts";
import { clusterCommand } from "./commands/cluster.ts";
import { completionCommand } from "./commands/completion.ts";
import { configCommand } from "./commands/config.ts";
import { devCommand } from "./commands/dev.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { joinCommand } from "./commands/join.ts";
import { keysCommand } from "./commands/keys.ts";
import { loadTestCommand } from "./commands/load-test.ts";
import { manualCommand } from "./commands/manual.ts";
import { migrateCommand } from "./commands/migrate.ts";
import { nodeCommand } from "./commands/node.ts";
import { nodeKeysCommand } from "./commands/node-keys.ts";
import { replayCommand } from "./commands/replay.ts";
import { restoreCommand } from "./commands/restore.ts";
import { serveCommand } from "./commands/serve.ts";
import { testCommand } from "./commands/test.ts";
import { versionCommand } from "./commands/version.ts";

const EXAMPLES = `
Examples:
  stoa dev                          try it: an account, a project and a key, on this machine only
  stoa serve --host 0.0.0.0         run it for others
  stoa test -- npm test             run tests beside a server of their own
  stoa doctor                       what keeps it from working, and what to do about it
  stoa manual vps                   how to operate it: a VPS, firewall, proxy, backup, upgrade, sizing
  stoa config print --sources       what is set, and where
`;

/** Every command, in the order of the help. `argv` is looked at only for options whose names the user makes up. */
export function createProgram(argv: readonly string[]): Command {
  const program = new Command("stoa")
    .description("Real-time communications in one file: rooms, chat and live streams.")
    .version(`stoa ${VERSION}`, "-v, --version", "print the version")
    .helpCommand(true)
    .showHelpAfterError("Run with --help for the options.")
    .addHelpText("after", EXAMPLES)
    .exitOverride();
  program
    .addCommand(serveCommand(argv))
    .addCommand(devCommand(argv))
    .addCommand(nodeCommand(argv))
    .addCommand(adminCommand(argv))
    .addCommand(keysCommand(argv))
    .addCommand(nodeKeysCommand(argv))
    .addCommand(clusterCommand(argv))
    .addCommand(doctorCommand(argv))
    .addCommand(backupCommand(argv))
    .addCommand(restoreCommand(argv))
    .addCommand(migrateCommand(argv))
    .addCommand(configCommand(argv))
    .addCommand(testCommand())
    .addCommand(joinCommand())
    .addCommand(loadTestCommand())
    .addCommand(replayCommand())
    .addCommand(manualCommand())
    .addCommand(versionCommand())
    .addCommand(completionCommand(program));
  overrideExits(program);
  return program;
}

/** Commander hands its settings to subcommands made by `.command()`, not to those that are added. */
function overrideExits(command: Command): void {
  for (const child of command.commands) {
    child.copyInheritedSettings(command);
    overrideExits(child);
  }
}
