/**
 * Makes `stoa.tgz`, the npm package of this version: compiled modules with types and source maps, each module a file of
 * its own so that bundlers take what is used. What the wire's schemas describe is printed as plain types, so that nobody
 * who installs the package needs the library they are written with.
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { description, license, version } from "../package.json";
import { ENTRIES, manifest } from "./package-manifest.ts";
import { printRecords } from "./record-types.ts";

const COMPILER_FLAGS =
  "--ignoreConfig --declaration --stripInternal --sourceMap --inlineSources --target es2022 --module preserve " +
  "--moduleResolution bundler --lib ESNext,DOM,DOM.Iterable --jsx react-jsx --jsxImportSource react " +
  "--allowImportingTsExtensions --rewriteRelativeImportExtensions --verbatimModuleSyntax --strict --skipLibCheck --types bun";

/** All that a module of the package may import besides its siblings. */
const PROVIDED = /^(node:|react$|react\/jsx-runtime$)/;

export async function buildPackage(root: string, outfile: string): Promise<void> {
  const compiled = mkdtempSync(join(tmpdir(), "stoa-package-"));
  try {
    await compile(root, compiled);
    const files = new Map<string, Uint8Array | string>();
    for (const { source } of Object.values(ENTRIES)) {
      collectScripts(compiled, source.replace(/\.tsx?$/, ".js"), files);
      await collectTypes(root, compiled, source.replace(/\.tsx?$/, ".d.ts"), files);
    }
    const package_: Record<string, Uint8Array | string> = {
      "package/package.json": `${JSON.stringify(manifest({ version, description, license }), null, 2)}\n`,
      "package/LICENSE": readFileSync(join(root, "LICENSE"), "utf8"),
      "package/README.md": readFileSync(join(root, "web/package-readme.md"), "utf8"),
    };
    for (const [path, content] of files) package_[`package/dist/${path}`] = content;
    const archive = new Bun.Archive(package_);
    await Bun.write(outfile, Bun.gzipSync(await archive.bytes(), { level: 9 }));
  } finally {
    rmSync(compiled, { recursive: true });
  }
}

async function compile(root: string, outdir: string): Promise<void> {
  const sources = Object.values(ENTRIES).map(({ source }) => source);
  const tsc = [
    "node_modules/.bin/tsc",
    ...sources,
    ...COMPILER_FLAGS.split(" "),
    "--rootDir",
    root,
    "--outDir",
    outdir,
  ];
  const child = Bun.spawn(tsc, { cwd: root, stdout: "pipe" });
  const output = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`the package does not compile:\n${output}`);
}

function collectScripts(folder: string, path: string, files: Map<string, Uint8Array | string>): void {
  if (files.has(path)) return;
  const script = readFileSync(join(folder, path), "utf8").replaceAll(/\bSTOA_VERSION\b/g, JSON.stringify(version));
  files.set(path, script);
  files.set(`${path}.map`, readFileSync(join(folder, `${path}.map`), "utf8"));
  for (const { path: to } of new Bun.Transpiler({ loader: "js" }).scanImports(script)) {
    if (to.startsWith(".")) collectScripts(folder, join(dirname(path), to), files);
    else if (!PROVIDED.test(to)) throw new Error(`${path} imports ${to}, which an installed package does not have`);
  }
}

/** The declarations that an entry leads to; those of the wire are printed, with the names that are asked for. */
async function collectTypes(
  root: string,
  folder: string,
  entry: string,
  files: Map<string, Uint8Array | string>,
): Promise<void> {
  const records = new Map<string, Set<string>>();
  const visit = (path: string) => {
    if (files.has(path)) return;
    const source = readFileSync(join(folder, path), "utf8").replaceAll(/"(\.{1,2}\/[^"]+)\.tsx?"/g, '"$1.js"');
    files.set(path, source);
    for (const { names, from } of declaredImports(source)) {
      const to = `${relative(".", join(dirname(path), from))}.d.ts`;
      if (!to.startsWith("src/protocol/")) visit(to);
      else for (const name of names) records.set(to, (records.get(to) ?? new Set()).add(name));
    }
  };
  visit(entry);
  for (const [path, names] of records) {
    const known = namesIn(files.get(path));
    const all = new Set([...known, ...names]);
    files.set(path, await printRecords(join(root, path.replace(/\.d\.ts$/, ".ts")), [...all].sort()));
  }
}

/** `import { A, type B as C } from "./x.js"`, and `import("./x.js").A` as the compiler writes it where nobody has imported. */
function* declaredImports(source: string): Generator<{ names: string[]; from: string }> {
  for (const [, list = "", from = ""] of source.matchAll(/\{([^{}]*)\} from "(\.[^"]+)\.js"/g)) {
    const names = list.split(",").map(
      (entry) =>
        entry
          .trim()
          .replace(/^type /, "")
          .split(" as ")[0] ?? "",
    );
    yield { names: names.filter((name) => name !== ""), from };
  }
  for (const [, from = ""] of source.matchAll(/(?:\* from|^import) "(\.[^"]+)\.js"/gm)) yield { names: [], from };
  for (const [, from = "", name = ""] of source.matchAll(/import\("(\.[^"]+)\.js"\)\.(\w+)/g))
    yield { names: [name], from };
}

function namesIn(declared: Uint8Array | string | undefined): string[] {
  return [...String(declared ?? "").matchAll(/^export type (\w+) =/gm)].map(([, name = ""]) => name);
}

/** For a registry: the same file under its version. */
export function copyForRegistry(tarball: string, dist: string): void {
  mkdirSync(dist, { recursive: true });
  if (existsSync(tarball)) copyFileSync(tarball, join(dist, `stoa-${version}.tgz`));
}
