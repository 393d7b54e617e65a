import { readFileSync } from "node:fs";

/** One setting of a configuration file: its key, and the variables that the key may stand for, most likely first. */
export type FileSetting = { names: readonly string[]; key: string; value: unknown };

/**
 * Tables only structure the file for the reader: `CHAT_MAX_TEXT_LENGTH`, `[limits] chat_max_text_length` and `[chat]
 * max_text_length` are the same variable, and `[oauth.google] client_id` is OAUTH_GOOGLE_CLIENT_ID.
 */
export function settingsOf(table: Readonly<Record<string, unknown>>, path: readonly string[] = []): FileSetting[] {
  return Object.entries(table).flatMap(([key, value]): FileSetting[] => {
    const keys = [...path, key];
    if (isTable(value)) return settingsOf(value, keys);
    return [{ names: [variableName(keys), variableName([key])], key: keys.join("."), value }];
  });
}

/** Throws an error whose message starts with the number of the invalid line. */
export function readConfigFile(path: string): Readonly<Record<string, unknown>> {
  const text = readFileSync(path, "utf8");
  try {
    const parsed: unknown = Bun.TOML.parse(text);
    return isTable(parsed) ? parsed : {};
  } catch (error) {
    throw new Error(`line ${invalidLine(text)}: ${(error as Error).message.replace(/^TOML Parse error: /, "")}`);
  }
}

/** The line after the longest prefix of the file that parses, because Bun's parser does not report the line. */
function invalidLine(text: string): number {
  const lines = text.split("\n");
  for (let count = lines.length - 1; count > 0; count--) {
    try {
      Bun.TOML.parse(lines.slice(0, count).join("\n"));
      return count + 1;
    } catch {}
  }
  return 1;
}

function variableName(keys: readonly string[]): string {
  return keys.join("_").replaceAll("-", "_").toUpperCase();
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
