import { join } from "node:path";

/** A folder of the checkout that `bin/build` embeds; inside the binary folders lie at the root, by their base name. */
export function assetFolder(pathInCheckout: string): string {
  if (Bun.isStandaloneExecutable) return join(import.meta.dir, pathInCheckout.split("/").at(-1) ?? "");
  return join(import.meta.dir, "../..", pathInCheckout);
}
