/**
 * bin/build              web assets, then dist/stoa for this machine
 * bin/build --all        the same for every platform of a release
 * bin/build --web-only   only the web assets, for running from a checkout
 *
 * It also writes dist/stoa.cdx.json (what is in the binaries), checksums.txt, and install.sh, which verifies a download with
 * that list, so that the folder is a release. The same commit gives the same bytes in any folder.
 * With STOA_SIGNING_KEY_FILE (or STOA_SIGNING_KEY), --all signs that list, and its install.sh refuses another one.
 */
import { copyFileSync, linkSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { CHECKSUMS_LIBRARY, compileChecksums } from "../src/kernel/db/checksums.ts";
import { VERSION } from "../src/kernel/version.ts";
import { compileNative, type NativeArch } from "../src/sfu/fast-path/compile.ts";
import { buildBinary, PLATFORMS, type Platform, thisPlatform } from "./build-binary.ts";
import { copyForRegistry } from "./build-package.ts";
import { buildWeb } from "./build-web.ts";
import { billOfMaterials, readLibcrypto } from "./sbom.ts";
import { signingKey, signRelease } from "./sign-release.ts";

const { values } = parseArgs({ options: { all: { type: "boolean" }, "web-only": { type: "boolean" } } });

// An invalid key is reported before the build, which takes minutes.
const key = values.all === true ? signingKey(process.env) : null;

/** The platforms that native code can be cross-compiled for; a library built against glibc does not run on musl. */
const NATIVE_PLATFORMS: Partial<Record<Platform, NativeArch>> = { "linux-x64": "x64", "linux-arm64": "arm64" };

const SBOM = "stoa.cdx.json";
const root = join(import.meta.dir, "..");
const dist = join(root, "dist");
// Bun names modules by their paths from the current directory, and those names are in the binary.
process.chdir(root);
mkdirSync(dist, { recursive: true });

const modules = await step("web assets", () => buildWeb(root, join(dist, "web")));
copyForRegistry(join(dist, "web/stoa.tgz"), dist);

if (values["web-only"] !== true) {
  const platforms = values.all === true ? PLATFORMS : [thisPlatform()];
  const compilers = new Set<string>();
  for (const platform of platforms) await buildNative(platform, compilers);
  const binaries: Record<string, string> = {};
  for (const platform of platforms) {
    const file = `stoa-${platform}${platform.startsWith("windows") ? ".exe" : ""}`;
    const outfile = join(dist, file);
    const bundled = await step(file, () =>
      buildBinary({ root, platform, webDir: join(dist, "web"), nativeDir: nativeDirOf(platform), outfile }),
    );
    modules.push(...bundled);
    binaries[file] = await sha256(outfile);
  }
  const libcrypto = await Promise.all([...compilers].map(readLibcrypto));
  await Bun.write(
    join(dist, SBOM),
    billOfMaterials(root, { version: VERSION, binaries, platforms, modules, libcrypto }),
  );
  const sums = { ...binaries, [SBOM]: await sha256(join(dist, SBOM)) };
  const checksums = Object.entries(sums).map(([file, sum]) => `${sum}  ${file}\n`);
  // The signed list contains the version, so that install.sh does not accept an old release as a newer one.
  await Bun.write(join(dist, "checksums.txt"), `# stoa ${VERSION}\n${checksums.join("")}`);
  copyFileSync(join(root, "install.sh"), join(dist, "install.sh"));
  // The signature of an earlier build is no longer valid.
  rmSync(join(dist, "checksums.txt.minisig"), { force: true });
  if (key) signRelease(dist, key, Date.now());
  else if (values.all === true) console.error("stoa: not signed: set STOA_SIGNING_KEY_FILE to an Ed25519 key");
  // The hard link lets scripts use the binary without knowing the platform.
  rmSync(join(dist, "stoa"), { force: true });
  linkSync(join(dist, `stoa-${thisPlatform()}`), join(dist, "stoa"));
}

/** The folder is embedded under its base name, so it has the same name for every platform. */
function nativeDirOf(platform: Platform): string {
  return platform === thisPlatform() ? join(dist, "native") : join(dist, "cross", platform, "native");
}

/** Without a compiler for the platform, its binary uses the TypeScript packet path. */
async function buildNative(platform: Platform, compilers: Set<string>): Promise<void> {
  const arch = NATIVE_PLATFORMS[platform];
  rmSync(nativeDirOf(platform), { recursive: true, force: true });
  if (platform !== thisPlatform() && arch === undefined) return;
  await step(`native fan-out for ${platform}`, async () => {
    const compiled = await compileNative(join(nativeDirOf(platform), "media.so"), arch);
    if (!compiled.ok) console.error(`stoa: ${platform} has no native fan-out: ${compiled.reason}`);
    else {
      compileChecksums(join(nativeDirOf(platform), CHECKSUMS_LIBRARY), compiled.compiler);
      if (compiled.isStatic) compilers.add(compiled.compiler);
    }
  });
}

async function step<T>(name: string, build: () => Promise<T>): Promise<T> {
  const startedAt = performance.now();
  const result = await build();
  console.error(`stoa: built ${name} in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  return result;
}

async function sha256(path: string): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of Bun.file(path).stream()) hasher.update(chunk);
  return hasher.digest("hex");
}
