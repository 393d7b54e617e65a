/**
 * Makes `sdk.d.ts`, the SDK's types in one file that needs nothing beside it: the compiler's declarations, each module
 * as a namespace, and the wire's records printed from their schemas.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { KindGuard, type TSchema } from "@sinclair/typebox";

const COMPILER_FLAGS =
  "--ignoreConfig --declaration --emitDeclarationOnly --stripInternal --target esnext --module preserve " +
  "--moduleResolution bundler --lib ESNext,DOM,DOM.Iterable --allowImportingTsExtensions --strict --skipLibCheck --types bun";

type Module = { path: string; source: string; imports: Import[] };
type Import = { path: string; names: { name: string; as: string }[]; reexport: boolean };

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
    await Bun.write(outfile, await bundle(root, folder));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function bundle(root: string, folder: string): Promise<string> {
  const modules = new Map<string, Module>();
  const records = new Map<string, Set<string>>();
  const visit = (path: string) => {
    if (modules.has(path)) return;
    const found = parse(path, readFileSync(join(folder, path), "utf8"));
    modules.set(path, found);
    for (const { path: to, names } of found.imports) {
      if (!to.startsWith("src/protocol/")) visit(to);
      else for (const { name } of names) records.set(to, (records.get(to) ?? new Set()).add(name));
    }
  };
  visit("web/sdk/index.d.ts");

  const parts: string[] = [];
  for (const [path, names] of records) parts.push(await recordNamespace(root, path, [...names].sort()));
  for (const found of modules.values()) if (found.path !== "web/sdk/index.d.ts") parts.push(namespaceOf(found));
  const index = modules.get("web/sdk/index.d.ts");
  if (index) parts.push(topLevel(index));
  return parts.join("\n");
}

function parse(path: string, source: string): Module {
  const imports: Import[] = [];
  const rest = source.replace(
    /^(import|export)(?: type)? \{([^}]*)\} from "([^"]+)";\n/gm,
    (_, verb: string, list: string, from: string) => {
      const names = list.split(",").map((entry) => {
        const [name = "", as = name] = entry
          .trim()
          .replace(/^type /, "")
          .split(" as ");
        return { name, as };
      });
      const to = relative(".", join(dirname(path), from)).replace(/\.ts$/, ".d.ts");
      imports.push({ path: to, names, reexport: verb === "export" });
      return "";
    },
  );
  return { path, source: rest.replace(/^export \{\};\n/m, ""), imports };
}

const spaceOf = (path: string) => path.replace(/\.d\.ts$/, "").replace(/[^A-Za-z0-9]/g, "_");

function aliases({ imports }: Module): string {
  return imports
    .flatMap(({ path, names, reexport }) =>
      names.map(({ name, as }) => `${reexport ? "export " : ""}import ${as} = ${spaceOf(path)}.${name};\n`),
    )
    .join("");
}

function namespaceOf(found: Module): string {
  const body = found.source.replace(/^export declare /gm, "export ").replace(/^declare /gm, "");
  return `declare namespace ${spaceOf(found.path)} {\n${aliases(found)}${body}}\n`;
}

function topLevel(index: Module): string {
  // `export { Room };` of an imported name: the alias itself is exported instead.
  const exported = new Set([...index.source.matchAll(/^export \{ (\w+) \};\n/gm)].map(([, name]) => name));
  const body = index.source.replace(/^export \{ \w+ \};\n/gm, "");
  const lines = aliases(index).replace(/^import (\w+)/gm, (line, name) =>
    exported.has(name) ? `export ${line}` : line,
  );
  return `${lines}${body}`;
}

async function recordNamespace(root: string, path: string, names: string[]): Promise<string> {
  const schemas = (await import(join(root, path.replace(/\.d\.ts$/, ".ts")))) as Record<string, unknown>;
  const types = names.map((name) => {
    const schema = schemas[name];
    if (!KindGuard.IsSchema(schema)) throw new Error(`${path}: ${name} has no schema to print a type from`);
    return `export type ${name} = ${printed(schema)};\n`;
  });
  return `declare namespace ${spaceOf(path)} {\n${types.join("")}}\n`;
}

function printed(schema: TSchema): string {
  if (KindGuard.IsUnion(schema)) return schema.anyOf.map(printed).join(" | ");
  if (KindGuard.IsLiteral(schema)) return JSON.stringify(schema.const);
  if (KindGuard.IsArray(schema)) return `(${printed(schema.items)})[]`;
  if (KindGuard.IsRecord(schema))
    return `Record<string, ${printed(Object.values(schema.patternProperties)[0] as TSchema)}>`;
  if (KindGuard.IsObject(schema)) {
    const fields = Object.entries(schema.properties).map(
      ([name, field]) => `${name}${KindGuard.IsOptional(field) ? "?" : ""}: ${printed(field)};`,
    );
    return `{ ${fields.join(" ")} }`;
  }
  if (KindGuard.IsInteger(schema) || KindGuard.IsNumber(schema)) return "number";
  if (KindGuard.IsString(schema)) return "string";
  if (KindGuard.IsBoolean(schema)) return "boolean";
  if (KindGuard.IsNull(schema)) return "null";
  return "unknown";
}
