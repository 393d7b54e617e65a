import { afterAll, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { ROOT } from "../../cli/stoa.ts";

const VERSION = "9.9.9";
const PACKAGE = `@oven/bun-${process.platform}-${process.arch === "arm64" ? "aarch64" : "x64"}`;
const work = mkdtempSync(join(tmpdir(), "stoa-bun-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));

/** A package whose Bun only knows its version. */
function tarball(remark: string): Buffer {
  const folder = mkdtempSync(join(work, "tarball-"));
  mkdirSync(join(folder, "package/bin"), { recursive: true });
  writeFileSync(join(folder, "package/package.json"), JSON.stringify({ name: PACKAGE, version: VERSION }));
  writeFileSync(join(folder, "package/bin/bun"), `#!/bin/sh\n# ${remark}\necho ${VERSION}\n`, { mode: 0o755 });
  return Bun.spawnSync(["tar", "cz", "package"], { cwd: folder }).stdout;
}

const digest = (bytes: Buffer) => `sha512-${createHash("sha512").update(bytes).digest("base64")}`;

/** Runs bin/bun of a checkout whose lock file says `integrity`, where the registry serves `served`. */
async function fetchBun(integrity: string, served: Buffer) {
  using registry = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch({ url }) {
      if (url.endsWith(".tgz")) return new Response(new Uint8Array(served));
      const dist = { tarball: new URL("/bun.tgz", url).href, integrity: digest(served) };
      const version = { name: PACKAGE, version: VERSION, dist };
      return Response.json({ name: PACKAGE, "dist-tags": { latest: VERSION }, versions: { [VERSION]: version } });
    },
  });
  const root = mkdtempSync(join(work, "checkout-"));
  const tools = join(root, "tools");
  for (const folder of ["bin", "tools", "node_modules"]) mkdirSync(join(root, folder));
  copyFileSync(join(ROOT, "bin/bun"), join(root, "bin/bun"));
  writeFileSync(join(root, "package.json"), `{\n  "dependencies": {\n    "bun": "${VERSION}"\n  }\n}\n`);
  writeFileSync(
    join(root, "bun.lock"),
    `    "${PACKAGE}": ["${PACKAGE}@${VERSION}", "", { "os": "x" }, "${integrity}"],\n`,
  );
  const npm = Bun.which("npm");
  if (npm === null) throw new Error("npm is not here");
  for (const name of ["npm", "node"]) symlinkSync(Bun.which(name) ?? name, join(tools, name));
  const child = Bun.spawn(["sh", join(root, "bin/bun"), "--version"], {
    env: {
      PATH: `${tools}:/usr/bin:/bin:${dirname(npm)}`,
      HOME: root,
      npm_config_registry: `http://127.0.0.1:${registry.port}/`,
      npm_config_cache: join(root, "npm-cache"),
      npm_config_fetch_retries: "0",
    },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const kept = existsSync(join(root, ".cache/bun/node_modules", PACKAGE, "bin/bun"));
  return { code: await child.exited, out, err, kept };
}

test("bin/bun takes the Bun whose digest bun.lock has, and no other that a registry serves under its name", async () => {
  const ours = tarball("ours");
  const taken = await fetchBun(digest(ours), ours);
  expect(taken).toMatchObject({ code: 0, out: `${VERSION}\n`, kept: true });

  const replaced = await fetchBun(digest(ours), tarball("another"));
  expect(replaced).toMatchObject({ code: 1, out: "", kept: false });
  expect(replaced.err).toContain("EINTEGRITY");
  expect(replaced.err).toContain(`npm could not fetch ${PACKAGE}@${VERSION} as bun.lock has it`);

  const unknown = await fetchBun("", ours);
  expect(unknown).toMatchObject({ code: 1, kept: false });
  expect(unknown.err).toContain(`bun.lock has no digest of ${PACKAGE}@${VERSION}`);
}, 120_000);
