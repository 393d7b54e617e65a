/** Finds APIs in a script that the oldest supported browsers lack, according to MDN's compatibility data. */
import compat from "@mdn/browser-compat-data" with { type: "json" };
import type { CompatStatement, Identifier } from "@mdn/browser-compat-data";
import { type AnyNode, parse } from "acorn";

type Browser = "chrome" | "firefox" | "safari" | "safari_ios";
type Table = Record<string, Identifier>;

const YEARS = 2;
/** Old phones that get no system updates stay in use for longer. */
const FIXED: Partial<Record<Browser, string>> = { safari_ios: "16.4" };

/** The browser's release two years before the date of the data. */
export function floorOf(browser: Browser): string {
  const fixed = FIXED[browser];
  if (fixed !== undefined) return fixed;
  const day = new Date(compat.__meta.timestamp);
  day.setFullYear(day.getFullYear() - YEARS);
  const releases = Object.entries(compat.browsers[browser].releases)
    .filter(([, { release_date }]) => release_date !== undefined && new Date(release_date) <= day)
    .sort(([a], [b]) => compare(a, b));
  return releases.at(-1)?.[0] ?? "";
}

/** Lists each name that a browser at the floor lacks in all its meanings, as `name: browser since version`. */
export function tooNew(script: string): string[] {
  const { used, defined } = namesOf(script);
  const found: string[] = [];
  for (const name of [...used].filter((one) => !defined.has(one)).sort()) {
    const statements = statementsOf(name);
    for (const browser of ["chrome", "firefox", "safari", "safari_ios"] as const) {
      const floor = floorOf(browser);
      const since = statements.map((statement) => addedIn(statement, browser));
      if (since.length === 0 || since.some((version) => version !== null && compare(version, floor) <= 0)) continue;
      found.push(`${name}: ${browser} since ${since.find((version) => version !== null) ?? "never"}`);
    }
  }
  return found;
}

/** Safari 16.4 supports the syntax of ECMAScript 2022; later syntax throws here. */
function namesOf(script: string): { used: Set<string>; defined: Set<string> } {
  const used = new Set<string>();
  const defined = new Set<string>();
  const visit = (node: AnyNode) => {
    if (node.type === "MemberExpression" && !node.computed && node.property.type === "Identifier")
      used.add(node.property.name);
    // Minification does not rename globals.
    else if (node.type === "Identifier" && node.name.length > 2) used.add(node.name);
    const defines = node.type === "MethodDefinition" || node.type === "PropertyDefinition" || node.type === "Property";
    if (defines && !node.computed && node.key.type === "Identifier") defined.add(node.key.name);
    for (const child of Object.values(node)) {
      for (const one of Array.isArray(child) ? child : [child]) if (isNode(one)) visit(one);
    }
  };
  visit(parse(script, { ecmaVersion: 2022, sourceType: "module" }));
  return { used, defined };
}

const isNode = (value: unknown): value is AnyNode =>
  typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";

function statementsOf(name: string): CompatStatement[] {
  const tables = [compat.api, compat.javascript.builtins] as unknown as Table[];
  const entries = tables.flatMap((table) => [
    own(table, name),
    ...Object.values(table).flatMap((type) => [own(type, name), own(type, `${name}_static`)]),
  ]);
  return entries.flatMap((entry) => (entry?.__compat ? [entry.__compat] : []));
}

function own(table: object, name: string): Identifier | undefined {
  return Object.hasOwn(table, name) ? (table as Table)[name] : undefined;
}

function addedIn({ support }: CompatStatement, browser: Browser): string | null {
  const entry = support[browser];
  const plain = (Array.isArray(entry) ? entry : [entry]).find(
    (one) => one && !one.flags && !one.prefix && !one.alternative_name && !one.version_removed,
  );
  const version = plain?.version_added;
  return typeof version === "string" ? version.replace("≤", "") : null;
}

function compare(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number));
  for (let n = 0; n < 3; n++) {
    const difference = (left?.[n] ?? 0) - (right?.[n] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
