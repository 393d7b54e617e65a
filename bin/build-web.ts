import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { version } from "../package.json";
import { buildDocs } from "./build-docs.ts";
import { buildEmbed } from "./build-embed.ts";
import { buildPackage } from "./build-package.ts";
import { buildSdkTypes } from "./build-sdk-types.ts";

/**
 * Bundles the dashboard, the playground, the replay, the SDK, the npm package, the guides and the API reference into one folder, which the server
 * serves from disk in a checkout and from inside the binary otherwise. Files under assets/ carry their hash.
 */
export async function buildWeb(root: string, outdir: string): Promise<void> {
  rmSync(outdir, { recursive: true, force: true });
  mkdirSync(outdir, { recursive: true });
  await buildPages(join(root, "web"), outdir);
  await buildSdk(join(root, "web/sdk/index.ts"), outdir);
  await buildSdkTypes(root, join(outdir, "sdk.d.ts"));
  await buildEmbed(root, outdir);
  await buildPackage(root, join(outdir, "stoa.tgz"));
  await buildDocs(root, outdir);
  await packReference(join(root, "node_modules/@scalar/api-reference/dist/browser/standalone.js"), outdir);
  await Bun.write(join(outdir, ".built"), "");
}

async function buildPages(web: string, outdir: string): Promise<void> {
  const pages = ["dashboard", "playground", "replay"].map((page) => join(web, page, "index.html")).filter(existsSync);
  if (pages.length === 0) return;
  await Bun.build({
    entrypoints: pages,
    root: web,
    outdir,
    target: "browser",
    minify: true,
    splitting: true,
    publicPath: "/",
    naming: { entry: "[dir]/[name].[ext]", chunk: "assets/[name]-[hash].[ext]", asset: "assets/[name]-[hash].[ext]" },
    define: { "process.env.NODE_ENV": '"production"', STOA_VERSION: JSON.stringify(version) },
  });
}

async function buildSdk(entry: string, outdir: string): Promise<void> {
  if (!existsSync(entry)) return;
  await Bun.build({
    entrypoints: [entry],
    outdir,
    naming: "sdk.js",
    target: "browser",
    format: "esm",
    minify: true,
    define: { STOA_VERSION: JSON.stringify(version) },
  });
}

/** 4 MB of script for one page: kept compressed, and served as it is. */
async function packReference(script: string, outdir: string): Promise<void> {
  if (!existsSync(script)) return;
  await Bun.write(join(outdir, "api-reference.js.gz"), Bun.gzipSync(await Bun.file(script).bytes(), { level: 9 }));
}
