import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import type { Group } from "./group.ts";
import type { Load } from "./load.ts";

const ROOT = join(import.meta.dir, "../..");

/** `program` is an executable file that starts it. */
export type Checkout = { readonly root: string; readonly program: string; remove(): void };

/** This program as another version of it: another number, and what that version changes about the schema. */
export function checkoutOf(version: string, migrations: Record<string, string> = {}): Checkout {
  const root = mkdtempSync(join(tmpdir(), `stoa-${version}-`));
  cpSync(join(ROOT, "src"), join(root, "src"), { recursive: true });
  cpSync(join(ROOT, "migrations"), join(root, "migrations"), { recursive: true });
  for (const [name, sql] of Object.entries(migrations)) writeFileSync(join(root, "migrations", `${name}.sql`), sql);
  writeFileSync(join(root, "package.json"), JSON.stringify({ ...packageJson, version }));
  for (const shared of ["node_modules", "web", "tsconfig.json"]) symlinkSync(join(ROOT, shared), join(root, shared));
  mkdirSync(join(root, "dist"), { recursive: true });
  // Native code is compiled once for all.
  mkdirSync(join(ROOT, ".cache"), { recursive: true });
  symlinkSync(join(ROOT, ".cache"), join(root, ".cache"));
  symlinkSync(join(ROOT, "dist/web"), join(root, "dist/web"));
  const program = join(root, "stoa");
  const start = `exec ${process.execPath} --no-env-file ${join(root, "src/main.ts")} "$@"`;
  writeFileSync(program, `#!/bin/sh\n${start}\n`, { mode: 0o755 });
  return { root, program, remove: () => rmSync(root, { recursive: true, force: true }) };
}

/** Upgrades as the manual says: standbys first, then the leader. Ends with the standby leading. */
export async function upgrade(group: Group, load: Load, root?: string): Promise<void> {
  const leader = await group.leader();
  const standby = group.members.find((member) => member !== leader);
  if (standby === undefined) throw new Error("no standby is running");
  await group.stop(standby);
  await group.start(standby.name, {}, root);
  await load.more(10);
  await group.stop(leader);
  const next = await group.leader();
  if (next.name !== standby.name) throw new Error(`${next.name} leads, not ${standby.name}`);
  await group.start(leader.name, {}, root);
  await load.more(10);
}
