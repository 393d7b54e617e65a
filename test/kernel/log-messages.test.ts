import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Glob } from "bun";
import ts from "typescript-5";

const root = join(import.meta.dir, "../..");
const LEVELS = new Set(["trace", "debug", "info", "warn", "error", "fatal"]);
/** `log`, `this.#log`, `runtime.log`, `logger`: every name that code gives to the log. */
const LOG = /(^|[.#])log(ger)?$/i;
const MAX_CHARACTERS = 80;
const SUBSYSTEM = /^[a-z][a-z0-9]*([ -][a-z0-9]+)*$/;

type Message = { where: string; text: string | null };

/** The messages of every log call; null where a message is not written out at the call. */
function messagesIn(path: string, source: string): Message[] {
  if (!/log/i.test(source)) return [];
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  const messages: Message[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && isLogCall(node)) {
      const { line } = file.getLineAndCharacterOfPosition(node.getStart());
      for (const text of textsOf(messageOf(node))) messages.push({ where: `${path}:${line + 1}`, text });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return messages;
}

function isLogCall({ expression }: ts.CallExpression): boolean {
  if (!ts.isPropertyAccessExpression(expression)) return false;
  return LEVELS.has(expression.name.text) && LOG.test(expression.expression.getText());
}

/** The message is the first argument, or the second where the first holds the fields. */
function messageOf({ arguments: [first, second] }: ts.CallExpression): ts.Expression | undefined {
  return second ?? first;
}

function textsOf(expression: ts.Expression | undefined): (string | null)[] {
  if (expression === undefined) return [null];
  if (ts.isParenthesizedExpression(expression)) return textsOf(expression.expression);
  if (ts.isStringLiteralLike(expression)) return [expression.text];
  if (ts.isConditionalExpression(expression)) {
    return [...textsOf(expression.whenTrue), ...textsOf(expression.whenFalse)];
  }
  return [null];
}

/** Why a message does not have the form `subsystem: what happened`; null when it does. */
function faultOf(text: string | null): string | null {
  if (text === null) return "is not a plain string: what varies belongs in a field";
  const [subsystem = "", ...rest] = text.split(": ");
  const event = rest.join(": ");
  if (event === "" || !SUBSYSTEM.test(subsystem)) return "does not begin with a lower-case subsystem and a colon";
  if (text.length > MAX_CHARACTERS) return `has ${text.length} characters, and at most ${MAX_CHARACTERS} are allowed`;
  if (!beginsLow(event)) return "continues with a capital letter that is no acronym, setting or name in code";
  if (/[.!]$/.test(event)) return "ends like a sentence";
  return null;
}

/** Lower case, an acronym or setting (`TLS`, `STORAGE_S3_BUCKET`), or a name of the code (`JSON.parse`, `/healthz`). */
function beginsLow(event: string): boolean {
  const [word = ""] = event.split(/[ ,:;]/, 1);
  return !/^[A-Z]/.test(word) || /^[A-Z][A-Z0-9_.-]+s?$/.test(word);
}

const sources = [...new Glob("src/**/*.ts").scanSync(root)].sort();
const messages = sources.flatMap((path) => messagesIn(path, readFileSync(join(root, path), "utf8")));

test("every log message is `subsystem: what happened`, in at most 80 characters", () => {
  expect(messages.length).toBeGreaterThan(100);
  const faults = messages.flatMap(({ where, text }) => {
    const fault = faultOf(text);
    return fault === null ? [] : [`${where}  ${text ?? "(not a string)"}: ${fault}`];
  });
  expect(faults).toEqual([]);
});

describe("the form of a message", () => {
  test.each([
    "recording: file upload failed",
    "tls thread: started again",
    "acme: TLS-ALPN-01 challenge failed",
    "storage: STORAGE_S3_BUCKET is unreachable",
  ])("%p has it", (text) => expect(faultOf(text)).toBeNull());

  test.each([
    "a file could not be uploaded",
    "Recording: upload failed",
    "recording: Upload failed",
    "recording: upload failed.",
    "recording: ",
    `recording: ${"x".repeat(MAX_CHARACTERS)}`,
  ])("%p does not", (text) => expect(faultOf(text)).not.toBeNull());

  test("a message with interpolation does not have the form", () => {
    const found = messagesIn("example.ts", "this.#log.warn({ file }, `recording: lost $" + "{file}`);");
    expect(found.map(({ text }) => faultOf(text))).not.toContain(null);
    expect(found).toHaveLength(1);
  });

  test("both outcomes of a condition are checked", () => {
    const source = 'runtime.log.info(first ? "cluster: lost leadership" : "cluster: gained leadership");';
    expect(messagesIn("example.ts", source).map(({ text }) => text)).toEqual([
      "cluster: lost leadership",
      "cluster: gained leadership",
    ]);
  });
});
