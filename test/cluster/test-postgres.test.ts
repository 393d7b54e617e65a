import { expect, test } from "bun:test";
import { existsSync } from "node:fs";

test("the Postgres of a test ends with its process, even if that is killed", async () => {
  const script = `
import { testPostgres } from "${import.meta.dir}/../harness/postgres.ts";
console.log((await testPostgres()).pid());
setInterval(() => {}, 1_000);`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  const server = `/proc/${Number(new TextDecoder().decode(value))}`;
  expect(existsSync(server)).toBe(true);
  child.kill("SIGKILL");
  while (existsSync(server)) await Bun.sleep(50);
}, 60_000);
