import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { VERSION } from "../src/kernel/version.ts";
import { buildDocs } from "./build-docs.ts";
import { buildEmbed } from "./build-embed.ts";
import { buildPackage } from "./build-package.ts";
import { buildSdkTypes } from "./build-sdk-types.ts";
import { ON_DEMAND, ON_DEMAND_MODULES } from "./on-demand.ts";

/**
 * Bundles the dashboard, the playground, the replay, the SDK, the npm package, the guides and the API reference into one
 * folder. The server serves it from disk in a checkout and from inside the binary otherwise. Files under assets/ have a
 * hash in their name. The folder is replaced atomically, because several servers may start together and each build it.
 * Returns the paths of the modules in it.
 */
export async function buildWeb(root: string, outdir: string): Promise<string[]> {
  const making = `${outdir}.${crypto.randomUUID().slice(0, 8)}`;
  mkdirSync(making, { recursive: true });
  try {
    const modules = await buildPages(join(root, "web"), making);
    modules.push(...(await buildSdk(join(root, "web/sdk"), making)));
    copyProcessorFiles(join(root, "node_modules"), join(making, "processors"));
    await buildSdkTypes(root, join(making, "sdk.d.ts"));
    modules.push(...(await buildEmbed(root, making)));
    await buildPackage(root, join(making, "stoa.tgz"));
    await buildDocs(root, making);
    const reference = "node_modules/@scalar/api-reference/dist/browser/standalone.js";
    await packReference(join(root, reference), making);
    await Bun.write(join(making, ".built"), "");
    replaceFolder(making, outdir);
    return [...modules, reference];
  } finally {
    rmSync(making, { recursive: true, force: true });
  }
}

/** Replaces a folder atomically; if another process does the same, one of the new folders remains. */
function replaceFolder(newFolder: string, target: string): void {
  const before = `${newFolder}.before`;
  ignoreError("ENOENT", () => renameSync(target, before));
  ignoreError("ENOTEMPTY", () => renameSync(newFolder, target));
  rmSync(before, { recursive: true, force: true });
}

function ignoreError(expected: string, run: () => void): void {
  try {
    run();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== expected) throw error;
  }
}

async function buildPages(web: string, outdir: string): Promise<string[]> {
  const pages = ["dashboard", "playground", "replay"].map((page) => join(web, page, "index.html")).filter(existsSync);
  if (pages.length === 0) return [];
  const { metafile } = await Bun.build({
    entrypoints: pages,
    metafile: true,
    root: web,
    outdir,
    target: "browser",
    minify: true,
    splitting: true,
    publicPath: "/",
    naming: { entry: "[dir]/[name].[ext]", chunk: "assets/[name]-[hash].[ext]", asset: "assets/[name]-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"', STOA_VERSION: JSON.stringify(VERSION) },
  });
  return Object.keys(metafile?.inputs ?? {});
}

/** The SDK, and beside it the modules that it loads on demand and its worker. */
async function buildSdk(folder: string, outdir: string): Promise<string[]> {
  const scripts = {
    "sdk.js": "index.ts",
    ...ON_DEMAND_MODULES,
    "encryption-worker.js": "encryption/encryption-worker.ts",
    "processors.js": "processors/index.ts",
    "processors/noise-worklet.js": "processors/noise-worklet.ts",
  };
  const modules: string[] = [];
  for (const [name, entry] of Object.entries(scripts)) {
    modules.push(...(await buildScript(join(folder, entry), outdir, name)));
  }
  return modules;
}

/** Models and WebAssembly that the processors of audio and video load when they start. */
const PROCESSOR_FILES = {
  "rnnoise.wasm": "@sapphi-red/web-noise-suppressor/dist/rnnoise_simd.wasm",
  ...Object.fromEntries(
    [
      "selfie_segmentation.js",
      "selfie_segmentation.binarypb",
      "selfie_segmentation_landscape.tflite",
      "selfie_segmentation_solution_simd_wasm_bin.js",
      "selfie_segmentation_solution_simd_wasm_bin.wasm",
    ].map((name) => [name, `@mediapipe/selfie_segmentation/${name}`]),
  ),
};

function copyProcessorFiles(packages: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, path] of Object.entries(PROCESSOR_FILES)) copyFileSync(join(packages, path), join(folder, name));
}

async function buildScript(entry: string, outdir: string, naming: string): Promise<string[]> {
  if (!existsSync(entry)) return [];
  const { metafile } = await Bun.build({
    entrypoints: [entry],
    metafile: true,
    outdir,
    naming,
    target: "browser",
    format: "esm",
    minify: true,
    plugins: [ON_DEMAND],
    // Otherwise the bundle of a package that looks for Node's `__dirname` has this machine's path.
    define: { STOA_VERSION: JSON.stringify(VERSION), __dirname: '""' },
  });
  return Object.keys(metafile?.inputs ?? {});
}

/** The reference's script has 4 MB, so it is stored and served compressed. */
async function packReference(script: string, outdir: string): Promise<void> {
  if (!existsSync(script)) return;
  await Bun.write(join(outdir, "api-reference.js.gz"), Bun.gzipSync(await Bun.file(script).bytes(), { level: 9 }));
}
