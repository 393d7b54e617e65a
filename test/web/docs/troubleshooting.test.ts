import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ALERTS } from "../../../src/features/sessions/metrics/alerts.ts";
import { CHECK_NAMES } from "../../../src/ops/doctor/check.ts";
import { CHAT_CLOSE_CODES, CLOSE_CODES } from "../../../src/protocol/close-codes.ts";
import { ROOT } from "./blocks.ts";

const guide = readFileSync(join(ROOT, "web/docs/troubleshooting.md"), "utf8");
const start = readFileSync(join(ROOT, "src/server.ts"), "utf8");

/** The first cells of the tables of a chapter. */
function rowsOf(chapter: string): string[] {
  const [, text = ""] = guide.split(new RegExp(`^## ${chapter}$`, "m"));
  const [own = ""] = text.split(/^## /m);
  return [...own.matchAll(/^\| (`?[^|]+?`?) +\|/gm)].flatMap(([, cell = ""]) => cell.split(", "));
}

test("the troubleshooting page has every finding of the doctor", () => {
  const rows = rowsOf("Findings of `stoa doctor`");
  expect(CHECK_NAMES.filter((name) => !rows.includes(`\`${name}\``))).toEqual([]);
});

test("the troubleshooting page has every alert, and no other", () => {
  const rows = rowsOf("Alerts").filter((cell) => cell.startsWith("`"));
  expect(rows.sort()).toEqual(ALERTS.map(({ name }) => `\`${name}\``).sort());
});

test("the troubleshooting page has every close code, and no other", () => {
  const codes = new Set<number>([...Object.values(CLOSE_CODES), ...Object.values(CHAT_CLOSE_CODES)]);
  const rows = rowsOf("Close codes").map(Number).filter(Number.isInteger);
  expect(rows.toSorted()).toEqual([...codes].toSorted());
});

test("the troubleshooting page has every reason of a server that is not ready", () => {
  const reasons = [...start.matchAll(/readiness\.add\(\s*"(\w+)"/g)].map(([, name]) => `\`${name}\``);
  expect(reasons.length).toBeGreaterThan(4);
  const rows = rowsOf("The server is not ready");
  expect(reasons.filter((reason) => !rows.includes(reason))).toEqual([]);
});
