/**
 * Notes which files of `src` something goes through: every function says so when it is entered. For `--preload`, as the code is
 * changed while it is loaded.
 */
import { plugin } from "bun";
import ts from "typescript-5";

export type Walked = {
  enter(file: number): void;
  /** Runs what is no part of the server. */
  outside<T>(run: () => T): T;
  clear(): void;
  /** Entered since then. */
  files(): string[];
};

declare global {
  var walked: Walked;
}

/** Clients in the same process, which open and close packets with the server's own modules. */
const CLIENTS = "load-test/";

const names: string[] = [];
const entered = new Set<number>();
let clients = 0;
globalThis.walked = {
  enter(file) {
    if (clients === 0) entered.add(file);
  },
  outside(run) {
    clients++;
    try {
      return run();
    } finally {
      clients--;
    }
  },
  clear: () => entered.clear(),
  files: () => [...entered].map((file) => names[file] ?? "").sort(),
};

plugin({
  name: "walks",
  setup(build) {
    build.onLoad({ filter: /\/src\/.*\.ts$/ }, async ({ path }) => {
      const name = path.slice(path.lastIndexOf("/src/") + "/src/".length);
      const source = ts.createSourceFile(path, await Bun.file(path).text(), ts.ScriptTarget.Latest, true);
      return { contents: name.startsWith(CLIENTS) ? asClient(source) : asServer(source, name), loader: "ts" };
    });
  },
});

function asServer(source: ts.SourceFile, name: string): string {
  // Not by its name: the framework reads the source of its handlers, and looks for words in it.
  const enter = `globalThis.walked.enter(${names.push(name) - 1})`;
  return withBodies(source, (body) => (ts.isBlock(body) ? [`{${enter};`, "}"] : [`(${enter},`, ")"]));
}

function asClient(source: ts.SourceFile): string {
  return withBodies(source, (body) => {
    // What it waits for is the server's.
    const waits = ts.canHaveModifiers(body.parent) && ts.getModifiers(body.parent)?.some(isAsync);
    if (waits) return ["", ""];
    const run = "globalThis.walked.outside(() =>";
    return ts.isBlock(body) ? [`{return ${run}`, ")}"] : [run, ")"];
  });
}

const isAsync = ({ kind }: ts.ModifierLike) => kind === ts.SyntaxKind.AsyncKeyword;

/** The text with something before and behind every body of a function. */
function withBodies(source: ts.SourceFile, around: (body: ts.ConciseBody) => [string, string]): string {
  const edits: { at: number; text: string }[] = [];
  const visit = (node: ts.Node): void => {
    const body = bodyOf(node);
    const [before, behind] = body ? around(body) : ["", ""];
    if (body) edits.push({ at: body.getStart(source), text: before });
    ts.forEachChild(node, visit);
    if (body) edits.push({ at: body.end, text: behind });
  };
  visit(source);
  const { text } = source;
  let [changed, at] = ["", 0];
  // What begins at the same place is the outer one first, what ends there the inner one: in the order of the visit.
  for (const edit of edits.sort((a, b) => a.at - b.at)) {
    changed += text.slice(at, edit.at) + edit.text;
    at = edit.at;
  }
  return changed + text.slice(at);
}

function bodyOf(node: ts.Node): ts.ConciseBody | undefined {
  const isFunction =
    ts.isFunctionDeclaration(node) ||
    ts.isFunctionExpression(node) ||
    ts.isArrowFunction(node) ||
    ts.isMethodDeclaration(node) ||
    ts.isAccessor(node);
  return isFunction ? node.body : undefined;
}
