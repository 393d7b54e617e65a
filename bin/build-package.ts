/**
 * Builds `stoa.tgz`, the npm package of this version: compiled modules with types and source maps. Each module is a file,
 * so that bundlers can drop unused ones. The protocol's schemas are printed as plain types, so that the package does not
 * depend on the schema library.
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { description, license } from "../package.json";
import { BLOCK_BYTES, paddingOf, writeTarHeader } from "../src/kernel/archive/tar.ts";
import { RELEASE, VERSION } from "../src/kernel/version.ts";
import { buildSdkTypes, withoutGenericArrays } from "./build-sdk-types.ts";
import { ENTRIES, manifest, WORKERS } from "./package-manifest.ts";

const COMPILER_FLAGS =
  "--ignoreConfig --declaration --stripInternal --sourceMap --inlineSources --target es2022 --module preserve " +
  "--moduleResolution bundler --lib ESNext,DOM,DOM.Iterable --jsx react-jsx --jsxImportSource react " +
  "--allowImportingTsExtensions --rewriteRelativeImportExtensions --verbatimModuleSyntax --strict --skipLibCheck --types bun";

/** The imports that a module of the package may have besides its siblings. */
const PROVIDED = /^(node:|react$|react\/jsx-runtime$)/;

export async function buildPackage(root: string, outfile: string): Promise<void> {
  const compiled = mkdtempSync(join(tmpdir(), "stoa-package-"));
  try {
    await compile(root, compiled);
    // The single self-contained file replaces the compiler's declarations, which refer to the schema library.
    await buildSdkTypes(root, join(compiled, "web/sdk/index.d.ts"));
    const files = new Map<string, string>();
    for (const { source, bundled } of Object.values(ENTRIES)) {
      if (bundled) await bundle(root, source, files);
      else collectScripts(compiled, source.replace(/\.tsx?$/, ".js"), files);
      collectTypes(compiled, source.replace(/\.tsx?$/, ".d.ts"), files);
    }
    for (const worker of WORKERS) collectScripts(compiled, worker.replace(/\.ts$/, ".js"), files);
    const package_: Record<string, string> = {
      "package/package.json": `${JSON.stringify(manifest({ version: VERSION, description, license }), null, 2)}\n`,
      "package/LICENSE": readFileSync(join(root, "LICENSE"), "utf8"),
      "package/README.md": readFileSync(join(root, "web/package-readme.md"), "utf8"),
    };
    package_["package/THIRD-PARTY-LICENSES"] = licencesOf(root, [...files.values()]);
    for (const [path, content] of files) package_[`package/dist/${path}`] = content;
    await Bun.write(outfile, gzipSync(packageArchive(package_), { level: 9 }));
  } finally {
    rmSync(compiled, { recursive: true });
  }
}

/** All files have npm's fixed time of change, so that the same commit gives the same bytes. */
function packageArchive(files: Record<string, string>): Buffer {
  const entries = Object.entries(files).flatMap(([name, text]) => {
    const content = Buffer.from(text);
    const header = writeTarHeader({ name, size: content.length }, Date.UTC(1985, 9, 26, 8, 15), 0o644);
    return [header, content, Buffer.alloc(paddingOf(content.length))];
  });
  return Buffer.concat([...entries, Buffer.alloc(2 * BLOCK_BYTES)]);
}

async function compile(root: string, outdir: string): Promise<void> {
  const sources = [...Object.values(ENTRIES).map(({ source }) => source), ...WORKERS];
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

function collectScripts(folder: string, path: string, files: Map<string, string>): void {
  if (files.has(path)) return;
  const script = readFileSync(join(folder, path), "utf8").replaceAll(/\bSTOA_VERSION\b/g, JSON.stringify(VERSION));
  files.set(path, script);
  // The compiler names the source by its path from the temporary folder; its text is in the map.
  const map = JSON.parse(readFileSync(join(folder, `${path}.map`), "utf8")) as { sources: string[] };
  files.set(`${path}.map`, JSON.stringify({ ...map, sources: map.sources.map((source) => basename(source)) }));
  for (const { path: to } of new Bun.Transpiler({ loader: "js" }).scanImports(script)) {
    if (to.startsWith(".")) collectScripts(folder, join(dirname(path), to), files);
    else if (!PROVIDED.test(to)) throw new Error(`${path} imports ${to}, which an installed package does not have`);
  }
}

async function bundle(root: string, source: string, files: Map<string, string>): Promise<void> {
  const { outputs } = await Bun.build({
    entrypoints: [join(root, source)],
    target: "node",
    format: "esm",
    // Names and line breaks are kept for readable stack traces; a source map would be four times as large.
    minify: { syntax: true },
  });
  files.set(source.replace(/\.tsx?$/, ".js"), (await outputs[0]?.text()) ?? "");
}

/** The licences of the bundled libraries. */
function licencesOf(root: string, scripts: readonly string[]): string {
  const names = new Set(
    scripts.flatMap((script) =>
      [...script.matchAll(/^\/\/ .*?node_modules\/((?:@[^/]+\/)?[^/\n]+)\//gm)].map(([, name = ""]) => name),
    ),
  );
  const texts = [...names].sort().map((name) => {
    const folder = join(root, "node_modules", name);
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    const { license = "see its repository" } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name}: ${license}\n\n${file ? readFileSync(join(folder, file), "utf8").trim() : ""}\n`;
  });
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}

/** Collects the declarations that an entry imports. */
function collectTypes(folder: string, path: string, files: Map<string, string>): void {
  if (files.has(path)) return;
  if (path.startsWith("src/protocol/") && !/^src\/protocol\/(data|encryption)\//.test(path))
    throw new Error(`${path} imports a library that the package does not have`);
  const source = withoutGenericArrays(readFileSync(join(folder, path), "utf8")).replaceAll(
    /"(\.{1,2}\/[^"]+)\.tsx?"/g,
    '"$1.js"',
  );
  files.set(path, source);
  for (const [, to = ""] of source.matchAll(/(?:from|import) ?\(?"(\.[^"]+)\.js"/g)) {
    collectTypes(folder, `${relative(".", join(dirname(path), to))}.d.ts`, files);
  }
}

/** Copies the package under its release's name, because a registry knows releases and not commits. */
export function copyForRegistry(tarball: string, dist: string): void {
  mkdirSync(dist, { recursive: true });
  if (existsSync(tarball)) copyFileSync(tarball, join(dist, `stoa-${RELEASE}.tgz`));
}
