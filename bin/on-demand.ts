import type { BunPlugin } from "bun";

/** Parts of the SDK that are files of their own, which a page loads only when it needs them. */
export const ON_DEMAND: BunPlugin = {
  name: "on-demand",
  setup(build) {
    build.onResolve({ filter: /\/encryption\.ts$/ }, ({ kind }) =>
      kind === "dynamic-import" ? { path: "./encryption.js", external: true } : undefined,
    );
  },
};
