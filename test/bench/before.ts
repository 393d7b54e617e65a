/** before: sends, deliveries and requests of this server and of an earlier commit, in turns; `bin/bench before COMMIT [rounds] [seconds] [OTHER]` */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ChatChild } from "../features/chat/chat-child.ts";
import type { Backend } from "./chat/backend.ts";
import { deliveryCeiling, sendCeiling } from "./chat/scenarios.ts";
import { stoaAt } from "./chat/stoa.ts";
import { requestsPerSecond } from "./harness/http-load.ts";
import { cpuMicros } from "./harness/processes.ts";
import { type Measured, median, report } from "./harness/report.ts";

const ROOT = join(import.meta.dir, "../..");
const [commit, rounds = "6", seconds = "5", other] = process.argv.slice(2);
if (commit === undefined) {
  console.error("Which commit? `bin/bench before COMMIT [rounds] [seconds] [OTHER]`, OTHER instead of what is here");
  process.exit(2);
}
const SECONDS = Number(seconds);
const SOCKETS = 500;
/** The limit for figures that may have become worse. */
const GOAL = { atMost: 1.02 };

type Running = { backend: Backend; child: ChatChild };
const KINDS = ["send", "delivery", "request"] as const;
type Costs = Record<(typeof KINDS)[number], { perSecond: number; cpuMicros: number }>;

const folders: string[] = [];
function folder(name: string): string {
  const made = mkdtempSync(join(tmpdir(), `stoa-${name}-`));
  folders.push(made);
  return made;
}

/** The sources of a commit, with the packages of this one. */
async function sourcesOf(commit: string): Promise<string> {
  const root = folder("before");
  const archive = Bun.spawn(["git", "archive", commit], { cwd: ROOT, stdout: "pipe" });
  const unpack = Bun.spawn(["tar", "-x", "-C", root], { stdin: archive.stdout });
  if ((await archive.exited) !== 0 || (await unpack.exited) !== 0) throw new Error(`there is no commit ${commit}`);
  symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
  mkdirSync(join(root, "dist"), { recursive: true });
  symlinkSync(join(ROOT, "dist/web"), join(root, "dist/web"));
  return root;
}

async function start(root: string): Promise<Running> {
  const child = await ChatChild.start(folder("bench"), "", root);
  return { backend: stoaAt(child, () => child.kill()), child };
}

async function requests({ child }: Running): Promise<Costs["request"]> {
  const headers = { authorization: `Bearer ${child.key}` };
  const load = { url: `${child.url}/v1/project`, headers, connections: 64, pipelined: 1, durationMs: SECONDS * 1000 };
  const before = cpuMicros(child.pid);
  const { requests: count, perSecond } = await requestsPerSecond(load);
  return { perSecond, cpuMicros: (cpuMicros(child.pid) - before) / count };
}

async function measure(running: Running, round: number): Promise<Costs> {
  return {
    send: await sendCeiling(running.backend, SECONDS, round),
    delivery: await deliveryCeiling(running.backend, SECONDS, round, SOCKETS),
    request: await requests(running),
  };
}

const earlier = await start(await sourcesOf(commit));
const now = await start(other === undefined ? ROOT : await sourcesOf(other));
const measured = { earlier: [] as Costs[], now: [] as Costs[] };
// The first round warms both up.
for (let round = 0; round <= Number(rounds); round++) {
  const turns = [
    ["earlier", earlier],
    ["now", now],
  ] as const;
  // The two programs take turns at being first, so that other work of the machine affects both.
  for (const [name, running] of round % 2 === 0 ? turns : turns.toReversed()) {
    const costs = await measure(running, round);
    if (round > 0) measured[name].push(costs);
  }
}
for (const { backend } of [earlier, now]) await backend.stop();
for (const made of folders) rmSync(made, { recursive: true, force: true });

const figures: Measured[] = KINDS.flatMap((kind) => {
  const cost = (list: Costs[]) => median(list.map((costs) => costs[kind].cpuMicros));
  const rate = (list: Costs[]) => median(list.map((costs) => costs[kind].perSecond));
  return [
    { what: `a ${kind} before`, value: cost(measured.earlier), unit: "µs of CPU" },
    { what: `a ${kind} now`, value: cost(measured.now), unit: "µs of CPU" },
    {
      what: `a ${kind}: CPU now against before`,
      value: cost(measured.now) / cost(measured.earlier),
      unit: "×",
      goal: GOAL,
    },
    { what: `a ${kind}: per second now against before`, value: rate(measured.now) / rate(measured.earlier), unit: "×" },
  ];
});
report("before", figures, { measured });
process.exit();
