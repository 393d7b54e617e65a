import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../../../..");

/** Installs published packages, once for each list of them, and returns their `node_modules`. */
export async function livekitPackages(
  named: "packages" | "agent-packages" | "vite-packages" = "packages",
): Promise<string> {
  const source = join(import.meta.dir, named);
  const list = readFileSync(join(source, "bun.lock"));
  const digest = createHash("sha256").update(list).digest("hex").slice(0, 12);
  const folder = join(ROOT, "node_modules/.cache", `livekit-packages-${digest}`);
  if (existsSync(folder)) return join(folder, "node_modules");
  const making = `${folder}.${process.pid}`;
  mkdirSync(making, { recursive: true });
  cpSync(source, making, { recursive: true });
  const install = Bun.spawn([process.execPath, "install", "--frozen-lockfile"], {
    cwd: making,
    env: { ...process.env, BUN_BE_BUN: "1" },
    stderr: "pipe",
    stdout: "ignore",
  });
  const [said, code] = await Promise.all([new Response(install.stderr).text(), install.exited]);
  if (code !== 0) throw new Error(`the packages cannot be installed: ${said}`);
  try {
    renameSync(making, folder);
  } catch {
    // Another test was faster.
    rmSync(making, { recursive: true, force: true });
  }
  return join(folder, "node_modules");
}
