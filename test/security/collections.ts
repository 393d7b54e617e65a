import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript-5";

/** Code in which no requests of others arrive: tools that an operator starts and that end, output, builds, and clients. */
const NOT_SERVERS = [
  ...[
    "cli/",
    "kernel/archive/",
    "ops/backup/",
    "ops/doctor/",
    "ops/load-test/",
    "protocol/data/",
    "protocol/encryption/",
    "rtc-client/",
  ],
];
const GROWS = new Set(["set", "add", "push", "unshift"]);
/** Methods whose callback has ended when they return. */
const AT_ONCE = new Set(["map", "flatMap", "filter", "forEach", "some", "every", "find", "reduce", "sort", "replace"]);

type Collection = { file: string; name: string };

/**
 * Maps, sets and lists of `src` that outlive the call that made them: fields of classes, those that objects are made with,
 * and variables to which a function adds that is not the one they were made in.
 */
export function longLivedCollections(root: string): Collection[] {
  const files = [...new Bun.Glob("**/*.ts").scanSync({ cwd: join(root, "src") })].sort();
  return files
    .filter((file) => !NOT_SERVERS.some((folder) => file.startsWith(folder)))
    .flatMap((file) =>
      [...new Set(collectionsIn(file, readFileSync(join(root, "src", file), "utf8")))].map((name) => ({ file, name })),
    );
}

export function collectionsIn(name: string, text: string): string[] {
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
  const names: string[] = [];
  const walk = (node: ts.Node): void => {
    if (ts.isPropertyDeclaration(node) && (isEmptyCollection(node.initializer) || isLateCollection(node))) {
      names.push(node.name.getText());
    }
    if (ts.isPropertyAssignment(node) && isEmptyMap(node.initializer)) names.push(node.name.getText());
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name) && isEmptyCollection(node.initializer)) {
      if (growsElsewhere(node.name)) names.push(node.name.text);
    }
    ts.forEachChild(node, walk);
  };
  walk(source);
  return names;
}

const isEmptyMap = (made: ts.Expression | undefined): boolean =>
  made !== undefined &&
  ts.isNewExpression(made) &&
  /^(?:Map|Set)$/.test(made.expression.getText()) &&
  (made.arguments ?? []).length === 0;

const isEmptyCollection = (made: ts.Expression | undefined): boolean =>
  isEmptyMap(made) || (made !== undefined && ts.isArrayLiteralExpression(made) && made.elements.length === 0);

/** A field that holds nothing until there is something to hold, and is added to then. */
const isLateCollection = ({ name, type, initializer }: ts.PropertyDeclaration): boolean =>
  initializer?.kind === ts.SyntaxKind.NullKeyword &&
  type !== undefined &&
  ts.isUnionTypeNode(type) &&
  type.types.some((one) => ts.isArrayTypeNode(one) || /^(?:Map|Set)</.test(one.getText())) &&
  type.getSourceFile().text.includes(`${name.getText()} ??= `);

/** Whether something is added to it by a function within the one that has it. */
function growsElsewhere(name: ts.Identifier): boolean {
  const home = functionAround(name);
  const scope = home ?? name.getSourceFile();
  let found = false;
  const walk = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { expression: target, name: method } = node.expression;
      if (ts.isIdentifier(target) && target.text === name.text && GROWS.has(method.text)) {
        if (lastingFunctionAround(node, home) !== home) found = true;
      }
    }
    if (!found) ts.forEachChild(node, walk);
  };
  ts.forEachChild(scope, walk);
  return found;
}

function functionAround(node: ts.Node): ts.Node | undefined {
  return ts.findAncestor(node.parent, ts.isFunctionLike);
}

/** The innermost function around `node`, within `home`, that may be called after `home` has returned. */
function lastingFunctionAround(node: ts.Node, home: ts.Node | undefined): ts.Node | undefined {
  let around = functionAround(node);
  while (around !== undefined && around !== home && isCalledAtOnce(around)) around = functionAround(around);
  return around;
}

function isCalledAtOnce({ parent }: ts.Node): boolean {
  if (!ts.isCallExpression(parent)) return false;
  const { expression } = parent;
  return ts.isPropertyAccessExpression(expression) && AT_ONCE.has(expression.name.text);
}
