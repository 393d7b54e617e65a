import { resolve } from "node:path";
import { publicUrlOfDomain } from "./edge.variables.ts";
import { type FileSetting, settingsOf } from "./file.ts";
import { isOAuthName, readProviders } from "./oauth.ts";
import { relationProblems } from "./relations.ts";
import { isKnown, looksLikeOurs, unknownName } from "./unknown-names.ts";
import { type Config, flagOf, isVariableName, VARIABLE_NAMES, VARIABLES, type VariableName } from "./variables.ts";

export type Source = "flag" | "environment" | "file" | "default";

export type Sources = Readonly<Record<VariableName, Source>>;

export type ConfigInput = {
  /** Values by variable name: `--chat-max-text-length 10` is passed as CHAT_MAX_TEXT_LENGTH. */
  flags?: Readonly<Record<string, unknown>>;
  env?: Readonly<Record<string, string | undefined>>;
  file?: Readonly<Record<string, unknown>>;
};

/** An invalid configuration, with the list of all problems. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join("\n"));
    this.name = "ConfigError";
  }
}

type Setting = { value: unknown; source: Exclude<Source, "default">; label: string };

/**
 * Flags override the environment, which overrides the file, which overrides defaults. Throws a ConfigError with every
 * problem.
 */
export function loadConfig({ flags = {}, env = {}, file = {} }: ConfigInput): { config: Config; sources: Sources } {
  const problems: string[] = [];
  const settings = new Map<string, Setting>();

  addFile(settings, settingsOf(file), problems);
  for (const [name, value] of Object.entries(env)) {
    // Compose files and shells set an empty variable to mean "not set".
    if (value === undefined || value === "") continue;
    if (isKnown(name)) settings.set(name, { value, source: "environment", label: name });
    else if (looksLikeOurs(name)) problems.push(unknownName([name], name, "environment"));
  }
  for (const [name, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    if (isKnown(name)) settings.set(name, { value, source: "flag", label: flagOf(name) });
    else problems.push(unknownName([name], flagOf(name), "flag"));
  }

  const values: Record<string, unknown> = {};
  const sources = {} as Record<VariableName, Source>;
  for (const name of VARIABLE_NAMES) {
    const setting = settings.get(name);
    sources[name] = setting?.source ?? "default";
    if (setting === undefined) {
      values[name] = VARIABLES[name].fallback;
      continue;
    }
    const reading = VARIABLES[name].read(setting.value);
    if (reading.ok) values[name] = reading.value;
    else problems.push(invalidValue(name, setting, reading.expected));
  }

  resolvePaths(values);
  values.PUBLIC_URL ??= publicUrlOfDomain(values as Config);
  const oauth = readProviders(oauthValues(settings));
  problems.push(...oauth.problems);
  const config = Object.freeze({ ...values, OAUTH: oauth.providers }) as Config;
  if (problems.length === 0) problems.push(...relationProblems(config));
  if (problems.length > 0) throw new ConfigError(problems);
  return { config, sources };
}

/**
 * Relative paths are resolved against the working directory at startup, because programs such as ffmpeg run in another
 * one.
 */
function resolvePaths(values: Record<string, unknown>): void {
  for (const name of VARIABLE_NAMES) {
    const value = values[name];
    if (VARIABLES[name].type === "path" && typeof value === "string") values[name] = resolve(value);
  }
}

function addFile(settings: Map<string, Setting>, found: readonly FileSetting[], problems: string[]): void {
  for (const { names, key, value } of found) {
    const name = names.find(isKnown);
    if (name === undefined) problems.push(unknownName(names, key, "file"));
    else if (settings.has(name)) problems.push(`${name} is set twice in the file, the second time as ${key}.`);
    else settings.set(name, { value, source: "file", label: key });
  }
}

function invalidValue(name: VariableName, { value, source, label }: Setting, expected: string): string {
  const display = VARIABLES[name].secret ? "[secret]" : JSON.stringify(value);
  const origin = label === name ? source : `${source} ${label}`;
  return `${name} = ${display} (${origin}): must be ${expected}.`;
}

function oauthValues(settings: ReadonlyMap<string, Setting>): Map<string, unknown> {
  const values = new Map<string, unknown>();
  for (const [name, { value }] of settings) if (!isVariableName(name) && isOAuthName(name)) values.set(name, value);
  return values;
}
