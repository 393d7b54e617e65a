type Entry = {
  source: string;
  /** Whether the entry is bundled with its libraries, so that they need not be installed. */
  bundled?: true;
};

/** The entries of the package and their sources. */
export const ENTRIES: Record<string, Entry> = {
  ".": { source: "src/cli/start/start-stoa.ts" },
  "./client": { source: "web/sdk/index.ts" },
  "./processors": { source: "web/sdk/processors/index.ts" },
  "./react": { source: "web/react/index.ts" },
  "./server": { source: "web/sdk/server.ts" },
  "./participant": { source: "src/rtc-client/participant/participant.ts", bundled: true },
};

/** Scripts that a module of the package starts as a worker, so that no import leads to them. */
export const WORKERS = ["web/sdk/encryption/encryption-worker.ts"];

type PackageInfo = { version: string; description: string; license: string };

export function manifest({ version, description, license }: PackageInfo): object {
  const exports = Object.entries(ENTRIES).map(([name, { source }]) => {
    const path = `./dist/${source.replace(/\.tsx?$/, "")}`;
    return [name, { types: `${path}.d.ts`, default: `${path}.js` }];
  });
  return {
    name: "stoa",
    version,
    description,
    license,
    type: "module",
    sideEffects: false,
    engines: { node: ">=20" },
    exports: { ...Object.fromEntries(exports), "./package.json": "./package.json" },
    // TypeScript's old module resolution finds the types by folder.
    typesVersions: {
      "*": Object.fromEntries(
        Object.entries(ENTRIES).map(([name, { source }]) => [
          name.slice(2) || ".",
          [`./dist/${source.replace(/\.tsx?$/, ".d.ts")}`],
        ]),
      ),
    },
    peerDependencies: { react: ">=18" },
    // React is needed only for stoa/react.
    peerDependenciesMeta: { react: { optional: true } },
    files: ["dist", "THIRD-PARTY-LICENSES"],
  };
}
