import { afterAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { getPriority } from "node:os";
import { EmbeddedMedia } from "../../src/nodes/embedded-media.ts";

const NICE = 16;
const RAISED_BY = 10;

/** The nice values of this process's threads. */
function priorities(): number[] {
  return readdirSync("/proc/self/task").map((thread) => {
    const [, fields = ""] = readFileSync(`/proc/self/task/${thread}/stat`, "utf8").split(") ");
    return Number(fields.split(" ")[NICE]);
  });
}

const usual = getPriority();
const isAllowed =
  Bun.spawnSync([process.execPath, "-e", `require("node:os").setPriority(${usual - RAISED_BY})`]).exitCode === 0;
const cleanup: (() => Promise<void>)[] = [];
afterAll(() => Promise.all(cleanup.map((close) => close())));

test("only the media workers' threads have a higher priority, where the system allows one", async () => {
  const where = { port: 0, hostname: "127.0.0.1", announce: ["127.0.0.1"], tcp: true, warmUp: false };
  const log = { info: () => {}, error: () => {} };
  const media = await EmbeddedMedia.start({ workers: 2, log, ...where });
  cleanup.push(() => media.close());
  const raised = priorities().filter((priority) => priority !== usual);
  expect(raised).toEqual(isAllowed ? [usual - RAISED_BY, usual - RAISED_BY] : []);
});
