// suite: soak
// needs: gcc libc6-dev libssl-dev
import { afterAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { ROOT } from "../../cli/stoa.ts";
import { buildBinary } from "./binary.ts";

mkdirSync(join(ROOT, ".cache"), { recursive: true });
// On the same disk, so that the dependencies can be linked instead of copied.
const other = mkdtempSync(join(ROOT, ".cache/rebuilt-"));
afterAll(() => rmSync(other, { recursive: true, force: true }));

async function run(...command: string[]): Promise<string> {
  const child = Bun.spawn(command, { cwd: ROOT, stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(`${command.join(" ")}: ${err}`);
  return out;
}

test("[11] the same commit built in another folder gives the same bytes", async () => {
  const built = dirname(await buildBinary());
  const checkout = join(other, "a/longer/path/than/before");
  await run("git", "clone", "-q", "--no-checkout", ROOT, checkout);
  for (const file of (await run("git", "ls-files", "-z")).split("\0").filter(Boolean)) {
    cpSync(join(ROOT, file), join(checkout, file), { recursive: true });
  }
  await run("cp", "-al", join(ROOT, "node_modules"), join(checkout, "node_modules"));
  await run(process.execPath, join(checkout, "bin/build.ts"));
  const list = (folder: string) => readFileSync(join(folder, "checksums.txt"), "utf8");
  // The list has the digests of the program and of its bill of materials.
  expect(list(join(checkout, "dist"))).toBe(list(built));
  const [tarball = ""] = [...new Bun.Glob("stoa-*.tgz").scanSync(built)];
  expect(readFileSync(join(checkout, "dist", tarball)).equals(readFileSync(join(built, tarball)))).toBe(true);
}, 600_000);
