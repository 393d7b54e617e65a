import pino, { type Logger } from "pino";
import { printable } from "./printable.ts";

export type Log = Logger;

/** Fields that could contain a secret; their values are redacted, down to two levels of nesting. */
const SECRET_FIELDS = [
  "authorization",
  "cookie",
  "password",
  "secret",
  "token",
  "accessToken",
  "refreshToken",
  "resumeToken",
  "key",
  "clientSecret",
];
const redactedPaths = SECRET_FIELDS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

type LogOptions = {
  level: string;
  /** `auto` means pretty on a terminal and JSON otherwise. */
  format: "auto" | "json" | "pretty";
  /** Standard error by default, so that `--json` output stays clean. */
  write?: (line: string) => void;
};

/** Uses an in-process stream: a pino transport starts a thread that hangs in a compiled binary. */
export function createLog({ level, format, write = (line) => void process.stderr.write(line) }: LogOptions): Log {
  const isPretty = format === "pretty" || (format === "auto" && process.stderr.isTTY);
  const stream = { write: isPretty ? (line: string) => write(prettyLine(line)) : write };
  return pino(
    {
      level,
      base: undefined,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: redactedPaths, censor: "[redacted]" },
    },
    stream,
  );
}

const COLOURS: Record<string, string> = { error: "31", fatal: "31", warn: "33", info: "36", debug: "90", trace: "90" };

function prettyLine(line: string): string {
  const { level, time, msg = "", err, ...rest } = JSON.parse(line) as Record<string, unknown>;
  const colour = COLOURS[String(level)] ?? "0";
  const fields = Object.entries(rest)
    .map(([name, value]) => ` ${printable(`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)}`)
    .join("");
  const head = `${String(time).slice(11, 19)} \x1b[${colour}m${String(level).padEnd(5)}\x1b[0m ${printable(String(msg))}`;
  return `${head}\x1b[90m${fields}${stackLines(err)}\x1b[0m\n`;
}

function stackLines(err: unknown): string {
  const { stack, message } = (err ?? {}) as { stack?: string; message?: string };
  const lines = (stack ?? message ?? "").split("\n").filter((line) => line !== "");
  return lines.map((line) => `\n    ${printable(line)}`).join("");
}

/** The path of a URL without its query, which may contain a token. */
export function pathOf(url: string): string {
  const start = url.indexOf("/", url.indexOf("//") + 2);
  const end = url.search(/[?#]/);
  return start < 0 ? "/" : url.slice(start, end < 0 ? undefined : end);
}

/** A path for the log: segments that could be a secret of 256 bits (an invitation's) or a JWT are redacted. */
export function loggedPath(url: string): string {
  return pathOf(url).replace(/(?<=\/)[\w.~%=+-]{43,}(?=\/|$)/g, "[redacted]");
}
