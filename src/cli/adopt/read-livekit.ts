import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { VARIABLES, type VariableName } from "../../kernel/config/index.ts";
import { CommandFailure } from "../failure.ts";
import { ruleFor, type Settings } from "./livekit-settings.ts";

type Table = Record<string, unknown>;

type AdoptedLine = { line: number; path: string; text: string };

type Adoption = {
  lines: AdoptedLine[];
  settings: Settings;
  keys: { apiKey: string; apiSecret: string }[];
  webhook: { apiKey: string; urls: string[] } | null;
};

/** Settings whose value in LiveKit's file contains tables, but is read as a whole. */
const SINGLE_VALUES = new Set(["rtc.turn_servers"]);

/** Reads LiveKit's configuration and reports what each of its settings becomes. The report never contains a secret. */
export function readLivekitConfig(file: string): Adoption {
  const source = readText(file);
  const config = parse(file, source);
  const numbers = lineNumbers(source);
  const settings: Settings = {};
  const lines = leavesOf(config).map(({ path, value }): AdoptedLine => {
    const { settings: found = {}, note } = ruleFor(path).apply(value);
    const texts = Object.entries(found).map(([name, wanted]) => settle(settings, name as VariableName, wanted));
    const text = [...texts, ...(note ? [note] : [])].join("; ") || "the same here";
    return { line: numbers.get(path) ?? 0, path, text };
  });
  return {
    lines: lines.sort((a, b) => a.line - b.line),
    settings,
    keys: keysOf(file, config),
    webhook: webhookOf(file, config),
  };
}

/** Takes over a value if our setting accepts it. */
function settle(settings: Settings, name: VariableName, value: unknown): string {
  const variable = VARIABLES[name];
  const read = variable.read(value);
  if (!read.ok) return `${name} does not accept this value: it expects ${read.expected}`;
  settings[name] = value;
  return "secret" in variable ? `${name} = …` : `${name} = ${JSON.stringify(value)}`;
}

function readText(file: string): string {
  if (!existsSync(file)) throw new CommandFailure(`there is no file ${file}.`);
  return readFileSync(file, "utf8");
}

function parse(file: string, source: string): Table {
  let parsed: unknown;
  try {
    parsed = Bun.YAML.parse(source);
  } catch (error) {
    throw new CommandFailure(`${file} is no YAML: ${(error as Error).message}`);
  }
  if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) return parsed as Table;
  throw new CommandFailure(`${file} has no settings: LiveKit's configuration is a table such as \`port: 7880\`.`);
}

const isTable = (value: unknown): value is Table =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function leavesOf(table: Table, prefix = ""): { path: string; value: unknown }[] {
  return Object.entries(table).flatMap(([key, value]) => {
    const path = `${prefix}${key}`;
    return isTable(value) && !SINGLE_VALUES.has(path) ? leavesOf(value, `${path}.`) : [{ path, value }];
  });
}

/** The line number of each setting, found by the indentation of its key. Settings in flow style have the line of their table. */
function lineNumbers(source: string): Map<string, number> {
  const numbers = new Map<string, number>();
  const open: { indent: number; key: string }[] = [];
  for (const [index, text] of source.split("\n").entries()) {
    const found = /^( *)(?:"([^"]+)"|'([^']+)'|([^\s#'"-][^:#]*?)) *:(?:\s|$)/.exec(text);
    if (!found) continue;
    const [, spaces = "", ...names] = found;
    const key = names.find((name) => name !== undefined) ?? "";
    while ((open.at(-1)?.indent ?? -1) >= spaces.length) open.pop();
    open.push({ indent: spaces.length, key });
    numbers.set(open.map(({ key }) => key).join("."), index + 1);
  }
  return numbers;
}

function keysOf(file: string, config: Table): Adoption["keys"] {
  const keyFile = config.key_file;
  const fromFile = typeof keyFile === "string" ? resolve(dirname(file), keyFile) : null;
  const tables = [config.keys, fromFile === null ? {} : parse(fromFile, readText(fromFile))];
  return tables.flatMap((table) =>
    Object.entries(isTable(table) ? table : {}).map(([apiKey, secret]) => {
      if (typeof secret === "string") return { apiKey, apiSecret: secret };
      throw new CommandFailure(`the secret of the key ${apiKey} must be a text: put it in quotes.`);
    }),
  );
}

function webhookOf(file: string, { webhook }: Table): Adoption["webhook"] {
  if (!isTable(webhook) || !Array.isArray(webhook.urls) || webhook.urls.length === 0) return null;
  if (typeof webhook.api_key !== "string") {
    throw new CommandFailure(`${file} has webhook.urls, but no webhook.api_key: name the key that signs them.`);
  }
  return { apiKey: webhook.api_key, urls: webhook.urls.map(String) };
}
