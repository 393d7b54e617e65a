import { type Command, Option } from "commander";
import {
  type Config,
  flagOf,
  GROUPS,
  loadConfig,
  readConfigFile,
  type Sources,
  VARIABLE_NAMES,
  VARIABLES,
  type VariableName,
} from "../kernel/config/index.ts";
import { OAUTH_FIELDS, oauthNameOfFlag } from "../kernel/config/oauth.ts";
import { messageOf } from "../kernel/error-message.ts";
import { CommandFailure } from "./failure.ts";

const FLAGS: ReadonlySet<string> = new Set(["--config", ...VARIABLE_NAMES.map(flagOf)]);

type ParsedOptions = { config?: string } & Record<string, unknown>;

/**
 * Adds every variable of the configuration to a command as a flag, in the groups of the documentation. Creating
 * hundreds of flags takes longer than most commands run, so only the flags of the command line are added, and only to
 * the command that runs. Help, completion and a misspelt flag need all of them.
 */
export function addConfigOptions(
  command: Command,
  argv: readonly string[],
  inHelp: "all" | readonly VariableName[],
): Command {
  if (!isUsed(command, argv)) return command;
  command.addOption(new Option("--config <file>", "TOML file with settings").helpGroup("Options:"));
  const given = flagsIn(argv);
  for (const { title, names } of GROUPS) {
    for (const name of names) {
      if (given && !given.has(flagOf(name))) continue;
      const option = variableOption(name).helpGroup(`${title}:`);
      if (inHelp !== "all" && !inHelp.includes(name)) option.hideHelp();
      command.addOption(option);
    }
  }
  for (const name of oauthNames(argv)) command.addOption(new Option(`${flagOf(name)} <text>`).hideHelp());
  return command;
}

/** Completion needs the flags of every command. */
function isUsed(command: Command, argv: readonly string[]): boolean {
  return argv.includes(command.name()) || argv.includes("completion");
}

/**
 * Null when all flags are needed: for help, for completion, and for an unknown flag, for which a suggestion is printed.
 */
function flagsIn(argv: readonly string[]): Set<string> | null {
  if (argv.includes("help") || argv.includes("completion")) return null;
  const given = argv.filter((argument) => argument.startsWith("-")).map((argument) => argument.replace(/=.*/s, ""));
  return given.every((flag) => FLAGS.has(flag)) ? new Set(given) : null;
}

/** Loads the configuration from the command line, the environment and the file of `--config`. */
export function configFrom(options: ParsedOptions): { config: Config; sources: Sources } {
  const flags: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(options)) {
    const name = variableOfKey(key);
    if (Object.hasOwn(VARIABLES, name) || name.startsWith("OAUTH_")) flags[name] = value;
  }
  return loadConfig({ flags, env: process.env, file: options.config === undefined ? {} : readFile(options.config) });
}

function readFile(path: string): Readonly<Record<string, unknown>> {
  try {
    return readConfigFile(path);
  } catch (error) {
    throw new CommandFailure(`cannot read ${path}: ${messageOf(error)}`, true);
  }
}

function variableOption(name: VariableName): Option {
  const { type, description, fallbackText, fallback, secret } = VARIABLES[name];
  const placeholder = type === "boolean" ? "[true|false]" : secret ? "<secret>" : `<${type}>`;
  const defaultText = fallbackText ?? (Array.isArray(fallback) ? fallback.join(",") : String(fallback ?? ""));
  return new Option(
    `${flagOf(name)} ${placeholder}`,
    defaultText === "" ? description : `${description} [${defaultText}]`,
  );
}

/** Operators choose the names of providers, so their flags exist only when the command line contains them. */
function oauthNames(argv: readonly string[]): Set<string> {
  const google = OAUTH_FIELDS.map((field) => `OAUTH_GOOGLE_${field}`);
  return new Set([...google, ...argv.flatMap((argument) => oauthNameOfFlag(argument) ?? [])]);
}

/** Turns Commander's camelCase key of a flag into the variable: chatMaxTextLength is CHAT_MAX_TEXT_LENGTH. */
function variableOfKey(key: string): string {
  return key.replaceAll(/([A-Z])/g, "_$1").toUpperCase();
}
