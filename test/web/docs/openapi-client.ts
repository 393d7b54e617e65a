/** Compiles a program against the types that openapi-typescript generates. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../../..");
const MODULES = join(ROOT, "node_modules");

/** Returns the compiler's output for `program`, which imports its types from "./api". */
export async function compileClient(document: string, program: string): Promise<string> {
  // The folder is inside the checkout, so that modules resolve.
  const folder = mkdtempSync(join(MODULES, ".client-"));
  try {
    writeFileSync(join(folder, "openapi.json"), document);
    await generate(folder);
    writeFileSync(join(folder, "program.ts"), program);
    const options = ["--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck", "false", "--target", "es2022"];
    const modules = ["--module", "esnext", "--moduleResolution", "bundler", "--types", "", "--lib", "es2022,dom"];
    const tsc = Bun.spawn([join(MODULES, ".bin/tsc"), ...options, ...modules, "program.ts"], {
      cwd: folder,
      stdout: "pipe",
    });
    return await new Response(tsc.stdout).text();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The generator needs the API of TypeScript 5, which TypeScript 7 lacks. */
async function generate(folder: string): Promise<void> {
  const entry = join(folder, "generate.ts");
  writeFileSync(
    entry,
    `import openapiTS, { astToString } from "openapi-typescript";
    const document = await Bun.file(${JSON.stringify(join(folder, "openapi.json"))}).json();
    await Bun.write(${JSON.stringify(join(folder, "api.ts"))}, astToString(await openapiTS(document)));`,
  );
  const olderCompiler: Bun.BunPlugin = {
    name: "older compiler",
    setup: (build) => {
      build.onResolve({ filter: /^typescript$/ }, () => ({ path: join(MODULES, "typescript-5/lib/typescript.js") }));
    },
  };
  await Bun.build({ entrypoints: [entry], target: "bun", outdir: join(folder, "out"), plugins: [olderCompiler] });
  const child = Bun.spawn([process.execPath, join(folder, "out/generate.js")], { stderr: "pipe" });
  if ((await child.exited) !== 0) throw new Error(await new Response(child.stderr).text());
}
