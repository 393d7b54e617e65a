import { afterAll, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ROOT } from "./stoa.ts";

const temporary = mkdtempSync(join(tmpdir(), "stoa-temporary-"));
afterAll(() => rmSync(temporary, { recursive: true }));

/** No process has this id: it is above the kernel's limit. */
const DEAD = 4_194_305;
const FILE = join(ROOT, "src/cli/start/temporary-folder.ts");
const SCRIPT = `console.log((await import(${JSON.stringify(FILE)})).createTemporaryFolder())`;

async function make(prefix: string[] = []): Promise<{ code: number; out: string }> {
  const env = { PATH: process.env.PATH, TMPDIR: temporary, HOME: temporary };
  const child = Bun.spawn([...prefix, process.execPath, "-e", SCRIPT], { env, cwd: temporary, stdout: "pipe" });
  return { out: (await new Response(child.stdout).text()).trim(), code: await child.exited };
}

function leave(name: string): string {
  const folder = join(temporary, name);
  mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, "stoa.db"), "");
  return folder;
}

test("folders of killed runs are removed, those of running ones stay", async () => {
  const [dead, alive] = [leave(`stoa-throw-away-${DEAD}-a`), leave(`stoa-throw-away-${process.pid}-b`)];
  const { out } = await make();
  expect([existsSync(dead), existsSync(alive), existsSync(out)]).toEqual([false, true, true]);
});

const canBeAnotherUser = process.getuid?.() === 0 && Bun.which("setpriv") !== null;

test.skipIf(!canBeAnotherUser)(
  "a folder that another user's killed run left behind does not prevent a start",
  async () => {
    chmodSync(temporary, 0o1777);
    const foreign = leave(`stoa-throw-away-${DEAD}-c`);
    const { code, out } = await make(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    expect([code, existsSync(foreign)]).toEqual([0, true]);
    expect(readdirSync(temporary)).toContain(out.split("/").at(-1) ?? "");
  },
);
