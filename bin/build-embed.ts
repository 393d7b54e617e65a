import { join } from "node:path";
import { VERSION } from "../src/kernel/version.ts";
import { ON_DEMAND } from "./on-demand.ts";

/** Preact replaces React in a tenth of the size. */
const STAND_INS: Record<string, string> = {
  react: "preact/compat",
  "react/jsx-runtime": "preact/jsx-runtime",
  "react-dom/client": "preact/compat/client",
};

/** Builds `embed.js`, the custom elements in one self-contained module, and returns the paths of the modules in it. */
export async function buildEmbed(root: string, outdir: string): Promise<string[]> {
  const { metafile } = await Bun.build({
    entrypoints: [join(root, "web/embed/index.ts")],
    metafile: true,
    outdir,
    naming: "embed.js",
    target: "browser",
    format: "esm",
    minify: true,
    define: { "process.env.NODE_ENV": '"production"', STOA_VERSION: JSON.stringify(VERSION) },
    plugins: [
      ON_DEMAND,
      {
        name: "stand-ins",
        setup(build) {
          build.onResolve({ filter: /^react(-dom)?(\/|$)/ }, ({ path }) => ({
            path: Bun.resolveSync(STAND_INS[path] ?? path, root),
          }));
        },
      },
    ],
  });
  return Object.keys(metafile?.inputs ?? {});
}
