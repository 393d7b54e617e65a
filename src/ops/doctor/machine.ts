import { existsSync, readFileSync } from "node:fs";
import { findFont } from "../../features/recordings/composition/captions.ts";
import { findFfmpeg } from "../../features/recordings/composition/ffmpeg.ts";
import { type Check, type CheckGroup, fail, pass, warn } from "./check.ts";

/** A clock that shows an earlier time is wrong. */
const BUILT_AFTER = Date.parse("2026-01-01T00:00:00Z");
const WANTED_BUFFER_BYTES = 4 * 1024 * 1024;
const WANTED_FILES = 65_536;
const MIN_FILES = 4_096;

export const checkMachine: CheckGroup = async ({ now, running, standby }) => [
  await clock(now),
  udpBuffers(),
  fileDescriptors(running ?? standby ?? null),
  await ffmpeg(),
];

async function clock(now: number): Promise<Check> {
  const name = "clock";
  const remedy = "Let the machine keep time, for instance with systemd-timesyncd: tokens depend on it.";
  if (now < BUILT_AFTER) return fail(name, `it shows ${new Date(now).toISOString()}`, remedy);
  if (Bun.which("timedatectl") !== null) {
    const result = Bun.spawnSync(["timedatectl", "show", "--property=NTPSynchronized", "--value"]);
    if (result.exitCode === 0 && result.stdout.toString().trim() === "no") {
      return warn(name, "it is not synchronised", remedy);
    }
  }
  return pass(name, new Date(now).toISOString());
}

/** The kernel limits socket buffers to these sizes, unless the process has the privilege to override them. */
function udpBuffers(): Check {
  const name = "udp-buffers";
  const values = ["rmem_max", "wmem_max"].map((file) => numberIn(`/proc/sys/net/core/${file}`));
  const smallest = Math.min(...values.map((value) => value ?? WANTED_BUFFER_BYTES));
  const detail = `net.core.rmem_max ${values[0] ?? "unknown"}, wmem_max ${values[1] ?? "unknown"}`;
  if (smallest >= WANTED_BUFFER_BYTES) return pass(name, detail);
  const wanted = `net.core.rmem_max=${WANTED_BUFFER_BYTES} net.core.wmem_max=${WANTED_BUFFER_BYTES}`;
  return warn(name, detail, `Busy rooms lose packets: sysctl -w ${wanted}, and the same in /etc/sysctl.d.`);
}

/** The limit of the running server, or the limit that a server would have when started from this shell. */
function fileDescriptors(running: { pid: number } | null): Check {
  const name = "file-descriptors";
  const path = `/proc/${running?.pid ?? "self"}/limits`;
  const limits = existsSync(path) ? readFileSync(path, "utf8") : "";
  // Stoa raises the soft limit to the hard one and uses it to keep a reserve, so only the hard limit matters.
  const limit = Number(/^Max open files +\S+ +(\d+)/m.exec(limits)?.[1] ?? WANTED_FILES);
  const detail = `at most ${limit} ${running ? "for the running server" : "in this shell"}`;
  const remedy = "Every connection takes one: raise `ulimit -n`, or LimitNOFILE in the unit.";
  if (limit < MIN_FILES) return fail(name, detail, remedy);
  return limit < WANTED_FILES ? warn(name, detail, remedy) : pass(name, detail);
}

/** Only compositions need ffmpeg, so its absence is not a problem. */
async function ffmpeg(): Promise<Check> {
  const name = "ffmpeg";
  const program = findFfmpeg();
  if (program === null)
    return pass(name, "not installed: recordings are made, but nothing is composed, afterwards or live");
  const font = await findFont(program);
  return pass(name, font === null ? `${program}, without a font: films have no names in them` : program);
}

function numberIn(path: string): number | null {
  return existsSync(path) ? Number(readFileSync(path, "utf8").trim()) : null;
}
