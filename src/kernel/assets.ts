import { join } from "node:path";

/** A folder of the checkout that `bin/build` embeds; in the binary these folders are at the root, by base name. */
export function assetFolder(pathInCheckout: string): string {
  if (Bun.isStandaloneExecutable) return join(import.meta.dir, pathInCheckout.split("/").at(-1) ?? "");
  return join(import.meta.dir, "../..", pathInCheckout);
}

/**
 * The entry point of a worker thread, by its path below `src`: the binary keeps this path, and has other modules at its
 * root.
 */
export function workerUrl(path: `${string}.ts`): URL {
  if (Bun.isStandaloneExecutable) return new URL(path.replace(/ts$/, "js"), import.meta.url);
  return new URL(`../${path}`, import.meta.url);
}
