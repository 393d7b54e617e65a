/**
 * Builds `sdk.d.ts`, the SDK's types in one self-contained file: the compiler's declarations with each module as a
 * namespace, and the protocol's records printed from their schemas.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { printRecords } from "./record-types.ts";

const INDEX = "web/sdk/index.d.ts";
const COMPILER_FLAGS =
  "--ignoreConfig --declaration --emitDeclarationOnly --stripInternal --target esnext --module preserve " +
  "--moduleResolution bundler --lib ESNext,DOM,DOM.Iterable --allowImportingTsExtensions --strict --skipLibCheck --types bun";

type Module = { path: string; declarations: Declaration[]; imports: Import[] };
/** A statement of a module with its doc comment. */
type Declaration = { name: string; text: string };
type Import = { path: string; name: string; as: string; reexport: boolean };

export async function buildSdkTypes(root: string, outfile: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-types-"));
  try {
    const tsc = [
      "node_modules/.bin/tsc",
      "web/sdk/index.ts",
      ...COMPILER_FLAGS.split(" "),
      "--rootDir",
      root,
      "--outDir",
      folder,
    ];
    const child = Bun.spawn(tsc, { cwd: root, stdout: "pipe" });
    const output = await new Response(child.stdout).text();
    if ((await child.exited) !== 0) throw new Error(`the SDK's types do not compile:\n${output}`);
    await Bun.write(outfile, withoutGenericArrays(await bundle(root, folder)));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Typed arrays have a parameter since TypeScript 5.7; this names the same type in earlier versions too. */
export function withoutGenericArrays(declarations: string): string {
  return declarations.replaceAll("Uint8Array<ArrayBuffer>", "ReturnType<typeof Uint8Array.from>");
}

/** Bundles the declarations that are reachable from the index, without internals. */
async function bundle(root: string, folder: string): Promise<string> {
  const modules = new Map<string, Module>();
  const load = (path: string) => {
    const known = modules.get(path) ?? parse(path, readFileSync(join(folder, path), "utf8"));
    modules.set(path, known);
    return known;
  };
  const index = load(INDEX);
  const keptNames = new Map<Module, Set<string>>([[index, new Set()]]);
  const records = new Map<string, Set<string>>();
  const keep = (module: Module, name: string) => {
    const names = keptNames.get(module) ?? new Set();
    keptNames.set(module, names);
    if (names.has(name)) return;
    names.add(name);
    const from = module.imports.find(({ as }) => as === name);
    if (from?.path.startsWith("src/protocol/") && !/^src\/protocol\/(data|encryption)\//.test(from.path))
      records.set(from.path, (records.get(from.path) ?? new Set()).add(from.name));
    else if (from) keep(load(from.path), from.name);
    for (const declaration of module.declarations) {
      if (declaration.name !== name) continue;
      for (const word of wordsOf(declaration)) if (word !== name && isKnown(module, word)) keep(module, word);
    }
  };
  for (const { as, reexport } of index.imports) if (reexport) keep(index, as);
  for (const { name } of index.declarations) keep(index, name);

  const parts: string[] = [];
  for (const [path, names] of records) parts.push(await recordNamespace(root, path, [...names].sort()));
  for (const [module, names] of keptNames) if (module !== index) parts.push(namespaceOf(module, names));
  parts.push(topLevel(index, keptNames.get(index) ?? new Set()));
  return parts.join("\n");
}

const wordsOf = ({ text }: Declaration) => new Set(text.replace(/\/\*[\s\S]*?\*\//g, "").match(/\w+/g));
const isKnown = ({ declarations, imports }: Module, word: string) =>
  declarations.some(({ name }) => name === word) || imports.some(({ as }) => as === word);

function parse(path: string, source: string): Module {
  const imports: Import[] = [];
  const rest = source.replace(
    /^(import|export)(?: type)? \{([^}]*)\} from "([^"]+)";\n/gm,
    (_, verb: string, list: string, from: string) => {
      const to = relative(".", join(dirname(path), from)).replace(/\.ts$/, ".d.ts");
      for (const entry of list.split(",").filter((one) => one.trim() !== "")) {
        const [name = "", as = name] = entry
          .trim()
          .replace(/^type /, "")
          .split(" as ");
        imports.push({ path: to, name, as, reexport: verb === "export" });
      }
      return "";
    },
  );
  // For `export { Room };` of an imported name, the alias is exported instead.
  for (const [, name] of rest.matchAll(/^export \{ (\w+) \};\n/gm)) {
    for (const one of imports) if (one.as === name) one.reexport = true;
  }
  return { path, declarations: declarationsOf(rest.replace(/^export \{.*\};\n/gm, "")), imports };
}

/** Finds the statements, which start in the first column, with their doc comments. */
function declarationsOf(source: string): Declaration[] {
  const statements = source.matchAll(
    /^(?:\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)?(?:export|declare|type|interface)\b[\s\S]*?(?=^(?:\/\*\*|export|declare|type|interface)|$(?![\s\S]))/gm,
  );
  return [...statements].flatMap(([text]) => {
    const name = /^(?:export )?(?:declare )?(?:abstract )?(?:class|type|interface|function|const) (\w+)/m.exec(
      text,
    )?.[1];
    return name === undefined ? [] : [{ name, text }];
  });
}

const spaceOf = (path: string) => path.replace(/\.d\.ts$/, "").replace(/[^A-Za-z0-9]/g, "_");

function aliases({ imports }: Module, keptNames: ReadonlySet<string>): string {
  return imports
    .filter(({ as }) => keptNames.has(as))
    .map(({ path, name, as, reexport }) => `${reexport ? "export " : ""}import ${as} = ${spaceOf(path)}.${name};\n`)
    .join("");
}

const textsOf = ({ declarations }: Module, keptNames: ReadonlySet<string>) =>
  declarations
    .filter(({ name }) => keptNames.has(name))
    .map(({ text }) => text)
    .join("");

function namespaceOf(module: Module, keptNames: ReadonlySet<string>): string {
  const body = textsOf(module, keptNames)
    .replace(/^export declare /gm, "export ")
    .replace(/^declare /gm, "");
  return `declare namespace ${spaceOf(module.path)} {\n${aliases(module, keptNames)}${body}}\n`;
}

function topLevel(index: Module, keptNames: ReadonlySet<string>): string {
  return `${aliases(index, keptNames)}${textsOf(index, keptNames)}`;
}

async function recordNamespace(root: string, path: string, names: string[]): Promise<string> {
  const types = await printRecords(join(root, path.replace(/\.d\.ts$/, ".ts")), names);
  return `declare namespace ${spaceOf(path)} {\n${types}}\n`;
}
