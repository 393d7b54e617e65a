import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { table } from "../../src/cli/table.ts";
import { createLog } from "../../src/kernel/log.ts";
import { printable, printableLines } from "../../src/kernel/printable.ts";

/** Clears the screen, sets the title, turns the text around, and starts a line of its own. */
const HOSTILE = "a\x1b[2J\x9b2J\x9d0;title\x07\u202eevil\u2066\u200f\x7f\r\nb";
const CONTROLS = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;

test("controls of C0 and C1 and characters that change the direction of text are escaped", () => {
  expect(printable(HOSTILE)).toBe("a\\u001b[2J\\u009b2J\\u009d0;title\\u0007\\u202eevil\\u2066\\u200f\\u007f\\r\\nb");
  for (let code = 0; code < 0xa0; code++) expect(printable(String.fromCharCode(code))).not.toMatch(CONTROLS);
  expect(printable("Żółć 你好 🎉 e\u0301 שלום")).toBe("Żółć 你好 🎉 e\u0301 שלום");
  expect(printableLines("a\n\tb\x9b")).toBe("a\n\tb\\u009b");
  expect(JSON.parse(printableLines(JSON.stringify({ name: HOSTILE })))).toEqual({ name: HOSTILE });
});

test("neither a table nor a log line for the terminal shows a tenant's control characters", () => {
  const [header = "", row = "", ...more] = table(["NAME", "KEY"], [[HOSTILE, "key_1"]]).split("\n");
  expect([header.slice(0, 4), more]).toEqual(["NAME", []]);
  expect(row).not.toMatch(CONTROLS);
  const lines: string[] = [];
  const log = createLog({ level: "info", format: "pretty", write: (line) => lines.push(line) });
  log.info({ name: HOSTILE, list: [HOSTILE], [HOSTILE]: 1 }, HOSTILE);
  // The log's own colours remain.
  const colours = new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, "g");
  expect(lines.join("").replaceAll(colours, "").trimEnd()).not.toMatch(CONTROLS);
});

test("every command prints through the one place that escapes", () => {
  const folder = join(import.meta.dir, "../../src/cli");
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const direct = sources.filter((name) =>
    /console\.|process\.stdout\.write/.test(readFileSync(join(folder, name), "utf8")),
  );
  expect(direct).toEqual(["print.ts"]);
});
