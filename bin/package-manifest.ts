type Entry = {
  source: string;
  /** In one file with the libraries it is made from, which nobody then has to install. */
  bundled?: true;
};

/** What can be imported from the package, and where it comes from. */
export const ENTRIES: Record<string, Entry> = {
  ".": { source: "src/cli/start/start-stoa.ts" },
  "./client": { source: "web/sdk/index.ts" },
  "./react": { source: "web/react/index.ts" },
  "./server": { source: "web/sdk/server.ts" },
  "./participant": { source: "src/rtc-client/participant/participant.ts", bundled: true },
};

type Facts = { version: string; description: string; license: string };

export function manifest({ version, description, license }: Facts): object {
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
    // Node 20's TypeScript users with the old resolution find the types by folder.
    typesVersions: {
      "*": Object.fromEntries(
        Object.entries(ENTRIES).map(([name, { source }]) => [
          name.slice(2) || ".",
          [`./dist/${source.replace(/\.tsx?$/, ".d.ts")}`],
        ]),
      ),
    },
    peerDependencies: { react: ">=18" },
    // For those who import stoa/react; nobody else needs it.
    peerDependenciesMeta: { react: { optional: true } },
    files: ["dist", "THIRD-PARTY-LICENSES"],
  };
}
