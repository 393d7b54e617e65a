/** The settings that Bun reads from the environment at its start: the server sets them for itself, however it is started. */
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AS_INSTALLED } from "../bench/harness/as-installed.ts";
import { PROGRAM, ROOT, startStoa } from "./stoa.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-engine-settings-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const settingsIn = (environment: string) => environment.split("\0").filter((entry) => entry.startsWith("BUN_"));

test.if(process.platform === "linux")("a server started with a bare environment has each setting once", async () => {
  const dataDir = join(folder, "data");
  const { child } = await startStoa([...PROGRAM, "serve", "--port", "0"], {
    env: { DATA_DIR: dataDir, MEDIA_UDP_PORT: "0" },
  });
  try {
    expect(settingsIn(readFileSync(`/proc/${child.pid}/environ`, "utf8"))).toEqual(
      Object.entries(AS_INSTALLED).map(([name, value]) => `${name}=${value}`),
    );
  } finally {
    child.kill();
    await child.exited;
  }
});

/** Returns the value of the setting in each program that the process became. */
async function programs(env: Record<string, string>): Promise<{ code: number; intervals: string[] }> {
  const log = join(folder, `${crypto.randomUUID()}.log`);
  const preload = join(folder, "preload.ts");
  writeFileSync(
    preload,
    `import { appendFileSync } from "node:fs";
     appendFileSync(${JSON.stringify(log)}, process.pid + " " + (process.env.BUN_GC_TIMER_INTERVAL ?? "unset") + "\\n");`,
  );
  const child = Bun.spawn(
    [process.execPath, "--no-env-file", "--preload", preload, join(ROOT, "src/main.ts"), "version"],
    {
      env: { PATH: process.env.PATH ?? "", ...env },
      stdout: "ignore",
      stderr: "ignore",
    },
  );
  const code = await child.exited;
  const lines = readFileSync(log, "utf8").trim().split("\n");
  expect(lines.every((line) => line.startsWith(`${child.pid} `))).toBe(true);
  return { code, intervals: lines.map((line) => line.split(" ")[1] ?? "") };
}

test.if(process.platform === "linux")("the process replaces itself once, and keeps its id", async () => {
  expect(await programs({})).toEqual({ code: 0, intervals: ["unset", AS_INSTALLED.BUN_GC_TIMER_INTERVAL] });
});

test("a value from the environment is kept", async () => {
  expect(await programs({ BUN_GC_TIMER_INTERVAL: "5000" })).toEqual({ code: 0, intervals: ["5000"] });
});
