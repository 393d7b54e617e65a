import { existsSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { commitOfCheckout } from "../src/kernel/version.ts";

export const PLATFORMS = [
  "linux-x64",
  "linux-arm64",
  "linux-x64-musl",
  "linux-arm64-musl",
  "darwin-x64",
  "darwin-arm64",
  "windows-x64",
] as const;

export type Platform = (typeof PLATFORMS)[number];

export function thisPlatform(): Platform {
  const name = `${process.platform}-${process.arch}${process.platform === "linux" && isMusl() ? "-musl" : ""}`;
  const platform = PLATFORMS.find((candidate) => candidate === name);
  if (platform === undefined) throw new Error(`there is no build for ${name}`);
  return platform;
}

/** Debian can have musl installed beside glibc, so musl is the system's libc only if glibc is missing. */
function isMusl(): boolean {
  if (!readdirSync("/lib").some((file) => file.startsWith("ld-musl-"))) return false;
  return Bun.which("getconf") === null || Bun.spawnSync(["getconf", "GNU_LIBC_VERSION"]).exitCode !== 0;
}

type BinaryOptions = {
  root: string;
  platform: Platform;
  webDir: string;
  /** The folder with the native packet path for the platform; empty if there is none. */
  nativeDir: string;
  outfile: string;
};

/**
 * Builds one file with bytecode (it starts four times as fast), workers, migrations and web assets, and returns the paths of
 * the modules in it.
 */
export async function buildBinary({ root, platform, webDir, nativeDir, outfile }: BinaryOptions): Promise<string[]> {
  const native = existsSync(join(nativeDir, "media.so")) ? [nativeDir] : [];
  const assets = [join(root, "migrations"), join(root, "web/docs"), webDir, ...native];
  const result = await Bun.build({
    // A worker is found in the binary only if it is an entry point.
    entrypoints: [join(root, "src/main.ts"), ...workers(root)],
    root: join(root, "src"),
    target: "bun",
    format: "esm",
    // The framework inspects the source of hooks and handlers; minified, they would all look asynchronous.
    minify: { syntax: true, identifiers: true, whitespace: false },
    bytecode: true,
    // With splitting, modules that are loaded on first use are not evaluated at the start.
    splitting: true,
    sourcemap: "inline",
    metafile: true,
    define: {
      // The binary cannot read the commit from the checkout.
      STOA_COMMIT: JSON.stringify(commitOfCheckout(root) ?? ""),
      STOA_PLATFORM: JSON.stringify(platform),
      // Bun replaces these in CommonJS modules by the path of the checkout, which would make every binary different.
      __dirname: '"/"',
      __filename: '"/"',
    },
    compile: {
      ...(platform === thisPlatform() ? {} : { target: `bun-${platform}` as Bun.Build.CompileTarget }),
      outfile,
      // Each folder is embedded under its base name.
      assets: assets.filter((folder) => existsSync(folder)),
      // A .env in the user's current directory must not configure the server.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  });
  if (!result.success) throw new AggregateError(result.logs, "the binary could not be built");
  // The source map is inside the binary; the copies that Bun writes beside it are not part of a release.
  for (const file of readdirSync(dirname(outfile))) {
    if (file.endsWith(".map") || file.startsWith(`${basename(outfile)}.`)) rmSync(join(dirname(outfile), file));
  }
  return Object.keys(result.metafile?.inputs ?? {});
}

function workers(root: string): string[] {
  return [...new Bun.Glob("src/**/{worker,*.worker}.ts").scanSync({ cwd: root, absolute: true })].sort();
}
