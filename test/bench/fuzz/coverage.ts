/**
 * Block coverage of src inside a running program, which Bun itself reports only at the end of a test run: while a module is loaded, a
 * counter is put into every block, branch and operand that may be skipped. The same counters measure work without a clock.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Node, parse } from "acorn";

const SOURCE = join(import.meta.dir, "../../../src/");

export type Coverage = {
  /** How often each place was reached since `reset`, modulo 256. */
  readonly hits: Uint8Array;
  /** Places in all loaded modules. */
  places: number;
  /** Places reached since `reset`; beyond `maxSteps` every further one throws. */
  steps: number;
  maxSteps: number;
};

export class TooMuchWork extends Error {
  override readonly name = "TooMuchWork";
}

const MAX_PLACES = 1 << 16;

/** Counts in everything that is imported from now on. */
export function startCoverage(): Coverage {
  const coverage: Coverage = { hits: new Uint8Array(MAX_PLACES), places: 0, steps: 0, maxSteps: Number.MAX_VALUE };
  const { hits } = coverage;
  Object.assign(globalThis, {
    __hit(place: number) {
      hits[place] = (hits[place] as number) + 1;
      coverage.steps++;
      if (coverage.steps > coverage.maxSteps) throw new TooMuchWork(`${coverage.steps} steps`);
    },
  });
  const transpiler = new Bun.Transpiler({ loader: "ts", target: "bun" });
  Bun.plugin({
    name: "coverage",
    setup(build) {
      build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = readFileSync(path, "utf8");
        if (!path.startsWith(SOURCE)) return { contents: text, loader: "ts" };
        const contents = withCounters(transpiler.transformSync(text), () => coverage.places++ % MAX_PLACES);
        return { contents, loader: "js" };
      });
    },
  });
  return coverage;
}

type Child = Node & Record<string, unknown>;

function withCounters(code: string, nextPlace: () => number): string {
  const before = new Map<number, string>();
  const after = new Map<number, string>();
  const insert = (at: number, text: string) => before.set(at, (before.get(at) ?? "") + text);
  const append = (at: number, text: string) => after.set(at, (after.get(at) ?? "") + text);
  const statement = () => `__hit(${nextPlace()});`;

  function visit(node: Child): void {
    if (node.type === "BlockStatement") insert(node.start + 1, statement());
    if (node.type === "SwitchCase") {
      const [first] = node.consequent as Child[];
      if (first) insert(first.start, statement());
    }
    const wrapped = wrappedIn(node);
    const children = Object.values(node).flat().filter(isNode);
    for (const child of children) {
      const wrapping = wrapped.get(child);
      if (wrapping) insert(child.start, wrapping === "statement" ? `{${statement()}` : `(__hit(${nextPlace()}),`);
      visit(child);
      if (wrapping) append(child.end, wrapping === "statement" ? "}" : ")");
    }
  }

  visit(parse(code, { ecmaVersion: "latest", sourceType: "module" }) as unknown as Child);
  let out = "";
  let at = 0;
  for (const place of [...new Set([...before.keys(), ...after.keys()])].sort((a, b) => a - b)) {
    out += code.slice(at, place) + (after.get(place) ?? "") + (before.get(place) ?? "");
    at = place;
  }
  return out + code.slice(at);
}

/** The children of a node that are not always reached and have no block of their own. */
function wrappedIn(node: Child): Map<Child, "statement" | "expression"> {
  const wrapped = new Map<Child, "statement" | "expression">();
  const add = (child: unknown, as: "statement" | "expression") => {
    if (isNode(child) && child.type !== "BlockStatement") wrapped.set(child, as);
  };
  switch (node.type) {
    case "IfStatement":
      add(node.consequent, "statement");
      add(node.alternate, "statement");
      break;
    case "ForStatement":
    case "ForOfStatement":
    case "ForInStatement":
    case "WhileStatement":
    case "DoWhileStatement":
      add(node.body, "statement");
      break;
    case "ConditionalExpression":
      add(node.consequent, "expression");
      add(node.alternate, "expression");
      break;
    case "LogicalExpression":
      add(node.right, "expression");
      break;
    case "ArrowFunctionExpression":
      add(node.body, "expression");
      break;
  }
  return wrapped;
}

function isNode(value: unknown): value is Child {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string" && "start" in value;
}
