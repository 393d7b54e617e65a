import { join } from "node:path";

const CHECKOUT = join(import.meta.dir, "../..");

/** A folder of the checkout that `bin/build` embeds; inside the binary folders lie at the root, by their base name. */
export function assetFolder(pathInCheckout: string): string {
  if (Bun.isStandaloneExecutable) return join(import.meta.dir, pathInCheckout.split("/").at(-1) ?? "");
  return join(CHECKOUT, pathInCheckout);
}

/**
 * A worker by its path below src/, such as "sfu/worker.ts"; `bin/build` makes an entry point of every worker.ts and
 * *.worker.ts. `new URL("./worker.ts", import.meta.url)` does not do: inside the binary every module claims to lie at
 * the root, while workers keep their folders.
 */
export function workerUrl(pathInSrc: string): URL {
  return Bun.isStandaloneExecutable
    ? new URL(`./${pathInSrc}`, import.meta.url)
    : Bun.pathToFileURL(join(CHECKOUT, "src", pathInSrc));
}
