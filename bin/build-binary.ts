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

/** Debian has a package that brings musl beside glibc: only where glibc is not is musl the system's own. */
function isMusl(): boolean {
  if (!readdirSync("/lib").some((file) => file.startsWith("ld-musl-"))) return false;
  return Bun.which("getconf") === null || Bun.spawnSync(["getconf", "GNU_LIBC_VERSION"]).exitCode !== 0;
}

type BinaryOptions = {
  root: string;
  platform: Platform;
  webDir: string;
  /** Holds the native part of the packet path, made for that platform; without it the platform goes without. */
  nativeDir: string;
  outfile: string;
};

/** One file with everything in it: code with bytecode (it starts four times as fast), workers, migrations, web assets. */
export async function buildBinary({ root, platform, webDir, nativeDir, outfile }: BinaryOptions): Promise<void> {
  const native = existsSync(join(nativeDir, "media.so")) ? [nativeDir] : [];
  const assets = [join(root, "migrations"), join(root, "web/docs"), webDir, ...native];
  const result = await Bun.build({
    // A worker is found in the binary only when it is an entry point of its own.
    entrypoints: [join(root, "src/main.ts"), ...workers(root)],
    root: join(root, "src"),
    target: "bun",
    format: "esm",
    // The framework reads the source of hooks and handlers; squeezed together they all look as if they had to be awaited.
    minify: { syntax: true, identifiers: true, whitespace: false },
    bytecode: true,
    // What is loaded on first use has functions of its own: in one piece with the rest they would all be made at the start.
    splitting: true,
    sourcemap: "inline",
    // The binary is away from its checkout, where the commit could be read.
    define: { STOA_COMMIT: JSON.stringify(commitOfCheckout(root) ?? "") },
    compile: {
      ...(platform === thisPlatform() ? {} : { target: `bun-${platform}` as Bun.Build.CompileTarget }),
      outfile,
      // Each folder is embedded under its base name.
      assets: assets.filter((folder) => existsSync(folder)),
      // The current directory belongs to the user: a .env lying there must not configure the server.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  });
  if (!result.success) throw new AggregateError(result.logs, "the binary could not be built");
  // The map is inside the binary; the copies that Bun leaves beside it are no part of a release.
  for (const file of readdirSync(dirname(outfile))) {
    if (file.endsWith(".map") || file.startsWith(`${basename(outfile)}.`)) rmSync(join(dirname(outfile), file));
  }
}

function workers(root: string): string[] {
  return [...new Bun.Glob("src/**/{worker,*.worker}.ts").scanSync({ cwd: root, absolute: true })].sort();
}
