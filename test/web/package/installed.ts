import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Elysia } from "elysia";
import { buildPackage } from "../../../bin/build-package.ts";
import { webRoutes } from "../../../src/kernel/http/serving/web-assets.ts";

const ROOT = join(import.meta.dir, "../../..");

/** A project whose only dependency is the package, installed from a server's address. */
export type Installed = {
  folder: string;
  url: string;
  run(command: string[], settings?: Record<string, string>, cwd?: string): Promise<{ code: number; output: string }>;
  /** Compiles sources together, as a start of the compiler costs more than they do, and returns its output. */
  compile(compiler: "typescript" | "typescript-5.4", sources: string[], flags: string): Promise<string>;
  close(): void;
};

export async function installPackage(): Promise<Installed> {
  const folder = mkdtempSync(join(tmpdir(), "stoa-installed-"));
  const served = mkdtempSync(join(tmpdir(), "stoa-served-"));
  // `bin/test` has just built it from the same sources, beside the binary.
  const { BUILT_STOA } = process.env;
  if (BUILT_STOA === undefined) await buildPackage(ROOT, join(served, "stoa.tgz"));
  else copyFileSync(join(dirname(BUILT_STOA), "web/stoa.tgz"), join(served, "stoa.tgz"));
  const app = new Elysia().use(webRoutes({ folder: served, version: "0", bucketOrigins: [] }));
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: app.handle });
  const url = `http://127.0.0.1:${server.port}/stoa.tgz`;

  const run: Installed["run"] = async (command, settings = {}, cwd = folder) => {
    const env = { ...process.env, ...settings };
    const child = Bun.spawn(command, { cwd, env, stdout: "pipe", stderr: "pipe" });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    return { code, output: out + err };
  };
  writeFileSync(join(folder, "package.json"), '{ "name": "somebody", "private": true, "type": "module" }');
  const install = await run(["npm", "install", "--no-audit", "--no-fund", url]);
  if (install.code !== 0) throw new Error(install.output);
  for (const name of ["@types", "undici-types", "csstype", "react", "react-dom", "scheduler"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  }

  return {
    folder,
    url,
    run,
    async compile(compiler, sources, flags) {
      const files = sources.map((source, n) => {
        writeFileSync(join(folder, `app-${n}.tsx`), source);
        return `app-${n}.tsx`;
      });
      const strict = "--noEmit --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --target es2022";
      const own = compiler === "typescript" ? ["--ignoreConfig"] : [];
      const tsc = join(ROOT, "node_modules", compiler, "bin/tsc");
      return (await run(["node", tsc, ...files, ...own, ...strict.split(" "), ...flags.split(" ")])).output;
    },
    close() {
      void server.stop(true);
      for (const path of [folder, served]) rmSync(path, { recursive: true, force: true });
    },
  };
}
