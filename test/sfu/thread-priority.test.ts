import { afterAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism, getPriority } from "node:os";
import { join } from "node:path";
import { EmbeddedMedia } from "../../src/nodes/embedded-media.ts";
import { raiseThreadPriority } from "../../src/sfu/thread-priority.ts";

const NICE = 16;
const RAISED_BY = 10;

/** The nice values of this process's threads. */
function priorities(): number[] {
  return readdirSync("/proc/self/task").map((thread) => {
    const [, fields = ""] = readFileSync(`/proc/self/task/${thread}/stat`, "utf8").split(") ");
    return Number(fields.split(" ")[NICE]);
  });
}

const HIGHEST = -20;
const usual = getPriority();
const higher = Math.max(HIGHEST, usual - RAISED_BY);
const isPermitted = Bun.spawnSync([process.execPath, "-e", `require("node:os").setPriority(${higher})`]).exitCode === 0;
const isAllowed = isPermitted && availableParallelism() > 1;
const cleanup: (() => Promise<void>)[] = [];
afterAll(() => Promise.all(cleanup.map((close) => close())));

test("only the media workers' threads have a higher priority, where the system allows one", async () => {
  const where = { port: 0, hostname: "127.0.0.1", announce: ["127.0.0.1"], tcp: true, warmUp: false };
  const log = { info: () => {}, error: () => {} };
  const media = await EmbeddedMedia.start({ workers: 2, log, ...where });
  cleanup.push(() => media.close());
  const raised = priorities().filter((priority) => priority !== usual);
  expect(raised).toEqual(isAllowed && higher < usual ? [higher, higher] : []);
});

test.skipIf(!isAllowed)("a server of high priority raises that of its media workers to the highest one", () => {
  const file = join(import.meta.dir, "../../src/sfu/thread-priority.ts");
  const code = `const raised = require("${file}").raiseThreadPriority(); console.log(raised, require("node:os").getPriority())`;
  const { stdout } = Bun.spawnSync(["nice", "-n", `${HIGHEST + 5 - usual}`, process.execPath, "-e", code]);
  expect(stdout.toString()).toBe(`true ${HIGHEST}\n`);
});

test("a server on one core gives its threads one priority", () => {
  expect(raiseThreadPriority(1)).toBe(false);
  expect(getPriority()).toBe(usual);
});
