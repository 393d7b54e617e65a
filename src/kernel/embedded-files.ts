import { join } from "node:path";

/**
 * Where files are that are no modules. In the standalone binary every module reports the root of the embedded files as
 * its own folder, workers keep their path below src/, and folders stand under their base name.
 */
const CHECKOUT = join(import.meta.dir, "../..");

/** `path` below src/, such as "sfu/worker.ts"; bin/build makes an entry point of every worker.ts and *.worker.ts. */
export function workerUrl(path: string): URL {
  return Bun.isStandaloneExecutable
    ? new URL(`./${path}`, import.meta.url)
    : Bun.pathToFileURL(join(CHECKOUT, "src", path));
}

export function migrationsDir(): string {
  return join(Bun.isStandaloneExecutable ? import.meta.dir : CHECKOUT, "migrations");
}

/** The output of bin/build-web.ts. */
export function webDir(): string {
  return Bun.isStandaloneExecutable ? join(import.meta.dir, "web") : join(CHECKOUT, "dist/web");
}
