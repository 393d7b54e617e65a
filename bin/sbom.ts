/**
 * The software bill of materials of a release, in CycloneDX 1.6: every package of the lock file, the parts of Bun, and libcrypto.
 * What a binary contains is `required`; what only builds and tests it is `excluded`.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Platform } from "./build-binary.ts";

type Hash = { alg: "SHA-256" | "SHA-512"; content: string };
type Licence = { expression: string } | { license: { id: string } };
type Component = {
  type: "application" | "library" | "file" | "platform";
  "bom-ref": string;
  name: string;
  version?: string;
  scope?: "required" | "excluded";
  hashes?: Hash[];
  licenses?: Licence[];
  purl?: string;
  components?: Component[];
};

export type Release = {
  version: string;
  /** The SHA-256 of each binary, by its file name. */
  binaries: Record<string, string>;
  platforms: readonly Platform[];
  /** The paths of all modules that were bundled. */
  modules: readonly string[];
  /** The libraries with which the native libraries were linked. */
  libcrypto: readonly Libcrypto[];
};

/** A libcrypto that is linked into a native library. */
type Libcrypto = { version: string; sha256: string };

/** Bun's own parts by their names in `process.versions`, with their licences. */
const PARTS_OF_BUN: Record<string, [name: string, licence: string]> = {
  ares: ["c-ares", "MIT"],
  boringssl: ["BoringSSL", "Apache-2.0"],
  icu: ["ICU", "Unicode-3.0"],
  libarchive: ["libarchive", "BSD-2-Clause"],
  libdeflate: ["libdeflate", "MIT"],
  llhttp: ["llhttp", "MIT"],
  lolhtml: ["lol-html", "BSD-3-Clause"],
  lshpack: ["ls-hpack", "MIT"],
  mimalloc: ["mimalloc", "MIT"],
  picohttpparser: ["picohttpparser", "MIT"],
  sqlite: ["SQLite", "blessing"],
  tinycc: ["TinyCC", "LGPL-2.1-or-later"],
  usockets: ["uSockets", "Apache-2.0"],
  uwebsockets: ["uWebSockets", "Apache-2.0"],
  webkit: ["JavaScriptCore (WebKit)", "LGPL-2.1-or-later AND BSD-2-Clause"],
  zlib: ["zlib", "Zlib"],
  zstd: ["Zstandard", "BSD-3-Clause"],
};

/** Libraries that a package contains in compiled form. */
const PARTS_OF_PACKAGES: Record<string, Component[]> = {
  "libopus-wasm": [part("pkg:generic/opus", "libopus", "1.6.1", "BSD-3-Clause")],
};

export function billOfMaterials(root: string, release: Release): string {
  const packages = readLock(root);
  const bundled = new Set(release.modules.map(packageOf));
  for (const platform of release.platforms) bundled.add(`@oven/bun-${platform.replace("arm64", "aarch64")}`);
  // The package `bun` is a launcher for the packages of the platforms, so it stands for the runtime in the binary.
  bundled.add("bun");

  const components = new Map<string, Component>();
  const dependsOn = new Map<string, Set<string>>();
  for (const [key, entry] of packages) {
    const ref = purlOf(entry);
    const scope = bundled.has(key) || components.get(ref)?.scope === "required" ? "required" : "excluded";
    const parts = entry.name === "bun" ? partsOfBun() : PARTS_OF_PACKAGES[entry.name];
    components.set(ref, {
      type: entry.name === "bun" ? "platform" : "library",
      "bom-ref": ref,
      name: entry.name,
      version: entry.version,
      scope,
      hashes: [{ alg: "SHA-512", content: entry.sha512 }],
      licenses: [licenceOf(root, key, packages)],
      purl: ref,
      ...(parts && { components: parts }),
    });
    const resolved = entry.dependencies.map((name) => resolve(packages, key, name)).filter((found) => found !== null);
    dependsOn.set(ref, new Set([...(dependsOn.get(ref) ?? []), ...resolved.map(purlOf)]));
  }
  for (const { version, sha256 } of release.libcrypto) {
    const libcrypto = part("pkg:generic/openssl", "OpenSSL libcrypto", version, "Apache-2.0");
    const ref = `${libcrypto["bom-ref"]}#${sha256.slice(0, 12)}`;
    const hashes: Hash[] = [{ alg: "SHA-256", content: sha256 }];
    components.set(ref, { ...libcrypto, "bom-ref": ref, scope: "required", hashes });
  }

  const own = `pkg:generic/stoa@${encodeURIComponent(release.version)}`;
  const direct = directDependencies(root)
    .map((name) => packages.get(name))
    .filter((entry) => entry !== undefined);
  const roots = new Set(direct.map(purlOf));
  for (const ref of components.keys()) if (!ref.startsWith("pkg:npm/")) roots.add(ref);
  const files = Object.entries(release.binaries).map(
    ([name, sha256]): Component => ({
      type: "file",
      "bom-ref": name,
      name,
      hashes: [{ alg: "SHA-256", content: sha256 }],
    }),
  );
  const content = {
    metadata: {
      lifecycles: [{ phase: "build" }],
      component: {
        type: "application",
        "bom-ref": own,
        name: "stoa",
        version: release.version,
        licenses: [{ license: { id: "MIT" } }],
        purl: own,
        components: files,
      },
    },
    components: sorted([...components.values()], (component) => component["bom-ref"]),
    dependencies: sorted(
      [{ ref: own, dependsOn: [...roots].sort() }, ...graphOf(components, dependsOn)],
      (dependency) => dependency.ref,
    ),
  };
  const serialNumber = `urn:uuid:${uuidOf(JSON.stringify(content))}`;
  return `${JSON.stringify({ $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", bomFormat: "CycloneDX", specVersion: "1.6", serialNumber, version: 1, ...content }, null, 2)}\n`;
}

/** The library that a compiler links statically. */
export async function readLibcrypto(compiler: string): Promise<Libcrypto> {
  const preprocess = Bun.spawn([compiler, "-E", "-P", "-include", "openssl/opensslv.h", "-x", "c", "-"], {
    stdin: Buffer.from("OPENSSL_VERSION_STR\n"),
    stdout: "pipe",
  });
  const text = await new Response(preprocess.stdout).text();
  const version = /"([^"]+)"\s*$/.exec(text)?.[1];
  if (version === undefined) throw new Error(`${compiler} does not know the version of OpenSSL`);
  const path = Bun.spawnSync([compiler, "-print-file-name=libcrypto.a"]).stdout.toString().trim();
  return { version, sha256: createHash("sha256").update(readFileSync(path)).digest("hex") };
}

type Locked = { name: string; version: string; sha512: string; dependencies: string[] };

function readLock(root: string): Map<string, Locked> {
  const lock = Bun.JSONC.parse(readFileSync(join(root, "bun.lock"), "utf8")) as {
    packages: Record<string, [string, string, Record<string, Record<string, string>>, string]>;
  };
  return new Map(
    Object.entries(lock.packages).map(([key, [id, , { dependencies, optionalDependencies }, integrity]]) => {
      const at = id.lastIndexOf("@");
      const sha512 = Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex");
      const names = Object.keys({ ...dependencies, ...optionalDependencies });
      return [key, { name: id.slice(0, at), version: id.slice(at + 1), sha512, dependencies: names }];
    }),
  );
}

/** `node_modules/a/node_modules/@b/c/x.js` belongs to `a/@b/c`, which is also the name of its entry in the lock file. */
function packageOf(path: string): string {
  const [, ...folders] = path.split(/(?:^|\/)node_modules\//);
  return folders.map((folder) => /^(?:@[^/]+\/)?[^/]+/.exec(folder)?.[0] ?? "").join("/");
}

/**
 * The entry that a package gets when it imports a name: its own copy, or one of a folder above. The lock file leaves out what is
 * optional and of no supported platform.
 */
function resolve(packages: ReadonlyMap<string, Locked>, from: string, name: string): Locked | null {
  for (let above = from; ; above = above.slice(0, Math.max(0, above.lastIndexOf("/")))) {
    const entry = packages.get(above === "" ? name : `${above}/${name}`);
    if (entry) return entry;
    if (above === "") return null;
  }
}

function purlOf({ name, version }: Locked): string {
  return `pkg:npm/${name.replace("@", "%40")}@${version}`;
}

/** A package for another platform is not installed here: it has the licence of the package that it is a part of. */
function licenceOf(root: string, key: string, packages: ReadonlyMap<string, Locked>): Licence {
  const folder = join(root, "node_modules", (key.match(/(?:@[^/]+\/)?[^/]+/g) ?? []).join("/node_modules/"));
  const manifest = join(folder, "package.json");
  if (!existsSync(manifest)) {
    const [parent] =
      [...packages].find(([other, { dependencies }]) => other !== key && dependencies.includes(key)) ?? [];
    if (parent === undefined) throw new Error(`${key} is not installed, and no package depends on it`);
    return licenceOf(root, parent, packages);
  }
  const { license } = JSON.parse(readFileSync(manifest, "utf8")) as { license?: unknown };
  if (typeof license !== "string") throw new Error(`${manifest} names no licence`);
  return licence(license);
}

function licence(text: string): Licence {
  return /\b(?:AND|OR|WITH)\b/.test(text) ? { expression: text } : { license: { id: text } };
}

function partsOfBun(): Component[] {
  return Object.entries(PARTS_OF_BUN).map(([key, [name, text]]) => {
    const version = process.versions[key];
    if (version === undefined) throw new Error(`this Bun has no part called ${key}`);
    return part(`pkg:generic/${key}`, name, version, text);
  });
}

function part(purl: string, name: string, version: string, text: string): Component {
  const ref = `${purl}@${version}`;
  return { type: "library", "bom-ref": ref, name, version, scope: "required", licenses: [licence(text)], purl: ref };
}

function directDependencies(root: string): string[] {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<string, object>;
  return Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
}

function graphOf(components: ReadonlyMap<string, Component>, dependsOn: ReadonlyMap<string, ReadonlySet<string>>) {
  return [...components.keys()].map((ref) => ({ ref, dependsOn: [...(dependsOn.get(ref) ?? [])].sort() }));
}

function sorted<T>(list: T[], key: (one: T) => string): T[] {
  return list.sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

/** Derived from the content, so that the same release always has the same number. */
function uuidOf(content: string): string {
  const hash = createHash("sha256").update(content).digest();
  hash[6] = ((hash[6] as number) & 0x0f) | 0x80;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  const hex = hash.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}
