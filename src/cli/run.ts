import { Command, CommanderError } from "commander";
import { COMPOSITOR_COMMAND } from "../features/egress/compositor/messages.ts";
import { FORWARDER_COMMAND } from "../gateways/livekit/forwarding/messages.ts";
import { FETCHER_COMMAND } from "../gateways/livekit/ingress/fetcher/messages.ts";
import { ConfigError } from "../kernel/config/index.ts";
import { VERSION } from "../kernel/version.ts";
import { adminCommand } from "./commands/admin.ts";
import { adoptCommand } from "./commands/adopt.ts";
import { backupCommand } from "./commands/backup.ts";
import { clusterCommand } from "./commands/cluster.ts";
import { completionCommand } from "./commands/completion.ts";
import { configCommand } from "./commands/config.ts";
import { devCommand } from "./commands/dev.ts";
import { doctorCommand } from "./commands/doctor.ts";
import { drainCommand } from "./commands/drain.ts";
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
import { upgradeCommand } from "./commands/upgrade.ts";
import { versionCommand } from "./commands/version.ts";
import { CommandFailure } from "./failure.ts";
import { printError } from "./print.ts";

const EXAMPLES = `
Examples:
  stoa dev                          try it on this machine, with an account, a project and an API key
  stoa serve --host 0.0.0.0         run it for clients on other machines
  stoa test -- npm test             run tests against a temporary server
  stoa doctor                       diagnose problems, with suggested fixes
  stoa manual vps                   how to operate it: a VPS, firewall, proxy, backup, upgrade, sizing
  stoa config print --sources       every setting, and where it is set
`;

/** The commands in the order of the help. */
const COMMANDS: Record<string, (argv: readonly string[], program: Command) => Command> = {
  serve: serveCommand,
  dev: devCommand,
  node: nodeCommand,
  admin: adminCommand,
  keys: keysCommand,
  adopt: adoptCommand,
  "node-keys": nodeKeysCommand,
  cluster: clusterCommand,
  drain: drainCommand,
  upgrade: upgradeCommand,
  doctor: doctorCommand,
  backup: backupCommand,
  restore: restoreCommand,
  migrate: migrateCommand,
  config: configCommand,
  test: testCommand,
  join: joinCommand,
  "load-test": loadTestCommand,
  replay: replayCommand,
  manual: manualCommand,
  version: versionCommand,
  completion: (_argv, program) => completionCommand(program),
};

const FAILURE = 1;
const WRONG_USAGE = 2;

/** Runs the command line. A failure exits at once, so that unfinished work does not keep the process alive. */
export async function run(argv: readonly string[]): Promise<void> {
  // Only the owner may read data, keys and backups, regardless of the shell's umask and the folder.
  process.umask(0o077);
  if (argv[0] === COMPOSITOR_COMMAND) {
    const { runCompositor } = await import("../features/egress/compositor/main.ts");
    await runCompositor();
    process.exit(0);
  }
  if (argv[0] === FETCHER_COMMAND) {
    const { runFetcher } = await import("../gateways/livekit/ingress/fetcher/main.ts");
    await runFetcher();
    process.exit(0);
  }
  if (argv[0] === FORWARDER_COMMAND) {
    const { runForwarder } = await import("../gateways/livekit/forwarding/main.ts");
    await runForwarder();
    process.exit(0);
  }
  try {
    await createProgram(argv).parseAsync(argv, { from: "user" });
  } catch (error) {
    process.exit(report(error));
  }
}

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE; // Commander has printed the error.
  if (error instanceof ConfigError) {
    const [first, ...rest] = error.problems;
    printError(
      rest.length === 0 ? `stoa: ${first}` : ["stoa: the configuration is wrong:", ...error.problems].join("\n  "),
    );
    printError("Run `stoa config doc` for every variable and its range.");
    return WRONG_USAGE;
  }
  if (error instanceof CommandFailure) {
    printError(`stoa: ${error.message}`);
    return error.wrongUsage ? WRONG_USAGE : FAILURE;
  }
  printError(error instanceof Error ? `stoa: ${error.message}\n${error.stack ?? ""}` : `stoa: ${String(error)}`);
  return FAILURE;
}

/**
 * Creates only the command that `argv` begins with, because creating all of them is slow; for help and completion it
 * creates all.
 */
function createProgram(argv: readonly string[]): Command {
  const program = new Command("stoa")
    .description("Real-time communications in one file: rooms, chat and live streams.")
    .version(`stoa ${VERSION}`, "-v, --version", "print the version")
    .helpCommand(true)
    .showHelpAfterError("Run with --help for the options.")
    .addHelpText("after", EXAMPLES)
    .exitOverride();
  const [name = ""] = argv;
  const isKnown = name !== "completion" && Object.hasOwn(COMMANDS, name);
  for (const make of isKnown ? [COMMANDS[name]] : Object.values(COMMANDS)) {
    if (make) program.addCommand(make(argv, program));
  }
  overrideExits(program);
  return program;
}

/** Commander passes its settings to subcommands made by `.command()`, but not to those added by `.addCommand()`. */
function overrideExits(command: Command): void {
  for (const child of command.commands) {
    child.copyInheritedSettings(command);
    overrideExits(child);
  }
}
