import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder, run } from "./cache.ts";

/** A package of Debian's with all it needs, unpacked and not installed; `program` is a file it must hold. */
export async function unpackDebian(name: string, program: string): Promise<string> {
  const cache = cacheFolder(name);
  const root = join(cache, "root");
  if (existsSync(join(root, program))) return root;
  // If it is installed, nothing has to be downloaded.
  if (existsSync(join("/", program))) return "/";
  const simulated = await run(["apt-get", "install", "-s", "-y", "--no-install-recommends", name], cache);
  const packages = [...simulated.matchAll(/^Inst (\S+)/gm)].map(([, found = ""]) => found);
  await run(["apt-get", "download", ...packages], cache);
  for (const file of readdirSync(cache).filter((found) => found.endsWith(".deb")))
    await run(["dpkg", "-x", file, root], cache);
  return root;
}

/** Where the shared libraries of an unpacked package are. */
export function librariesOf(root: string): string {
  return join(root, "usr/lib", `${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`);
}
