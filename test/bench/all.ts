/** all: every bench in turn, the median of three runs, as one table in Markdown and JSON; `bin/bench all [rounds] [--only=a,b] [--readme]` */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Machine, machine } from "./all/machine.ts";
import { type BenchResult, medianOf, type Run } from "./all/median.ts";
import { markdownOf, withFigures } from "./all/table.ts";

/** In the order of the chapters, with the seconds that one run takes on two cores: the estimate until one has run here. */
const BENCHES: Record<string, number> = {
  start: 30,
  idle: 50,
  rest: 30,
  chat: 300,
  "chat-faults": 80,
  webhooks: 60,
  observability: 90,
  join: 60,
  sfu: 500,
  rooms: 180,
  "full-room": 60,
  networks: 420,
  churn: 160,
  faults: 640,
  cuts: 480,
};
/** The minutes of these benches count faults and cuts, not time, so a second run would show nothing more. */
const ONCE = new Set(["faults", "cuts"]);

/** A bench that takes longer is stuck, and would hold up all the others. */
const LONGEST_MS = 20 * 60_000;

const ROOT = join(import.meta.dir, "../..");
const rounds = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 3);
const only = process.argv
  .find((word) => word.startsWith("--only="))
  ?.slice("--only=".length)
  .split(",");
const chosen = Object.entries(BENCHES).filter(([bench]) => only?.includes(bench) ?? true);
const plan = chosen.flatMap(([bench, seconds]) =>
  Array.from({ length: ONCE.has(bench) ? 1 : rounds }, (_, round) => ({ bench, seconds, round: round + 1 })),
);

const folder = join(ROOT, "dist/bench");
mkdirSync(folder, { recursive: true });
const file = Bun.file(join(folder, "all.json"));
// Benches that are left out this time keep their earlier figures.
const known: BenchResult[] = only && (await file.exists()) ? (await file.json()).results : [];

const runs = new Map<string, Run[]>();
for (const [index, { bench, round }] of plan.entries()) {
  const left = plan.slice(index).reduce((sum, step) => sum + step.seconds, 0);
  console.error(`[${index + 1}/${plan.length}] ${bench}, run ${round} (about ${minutes(left)} left)`);
  const startedAt = performance.now();
  const run = await runBench(bench);
  const seconds = (performance.now() - startedAt) / 1000;
  for (const step of plan) if (step.bench === bench) step.seconds = seconds;
  if (run) runs.set(bench, [...(runs.get(bench) ?? []), run]);
  // Written after each bench, so that an hour's figures are not lost if a later one fails.
  await write();
}

const { facts, results } = await write();
console.log(markdownOf(facts, results));
console.error("written to dist/bench/all.md and dist/bench/all.json");
if (process.argv.includes("--readme")) {
  const guide = Bun.file(join(ROOT, "web/docs/figures.md"));
  await Bun.write(guide, withFigures(await guide.text(), facts, results));
}
const missed = chosen.map(([bench]) => bench).filter((bench) => !runs.has(bench));
for (const bench of missed) console.error(`stoa: ${bench} gave no figures`);
if (missed.length > 0) process.exitCode = 1;

async function write(): Promise<{ facts: Machine; results: BenchResult[] }> {
  const facts = await machine();
  const results = Object.keys(BENCHES).flatMap((bench): BenchResult[] => {
    const of = runs.get(bench);
    return of ? [{ bench, runs: of.length, figures: medianOf(of) }] : known.filter((result) => result.bench === bench);
  });
  await Bun.write(file, `${JSON.stringify({ machine: facts, results }, null, 2)}\n`);
  await Bun.write(join(folder, "all.md"), markdownOf(facts, results));
  return { facts, results };
}

/** The figures are on the last line that is JSON; a missed goal is a figure too, a crash is none. */
async function runBench(bench: string): Promise<Run | null> {
  // A group of its own: the servers that it started end with it.
  const child = Bun.spawn([process.execPath, join(import.meta.dir, `${bench}.ts`)], {
    cwd: ROOT,
    stdin: "ignore",
    stderr: "pipe",
    detached: true,
  });
  const end = () => process.kill(-child.pid, "SIGKILL");
  const interrupted = () => {
    end();
    process.exit(130);
  };
  const timer = setTimeout(end, LONGEST_MS);
  process.once("SIGINT", interrupted).once("SIGTERM", interrupted);
  const [out, problems] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  clearTimeout(timer);
  process.off("SIGINT", interrupted).off("SIGTERM", interrupted);
  const line = out.split("\n").findLast((text) => text.startsWith('{"bench":'));
  if (line !== undefined) return JSON.parse(line) as Run;
  console.error(`stoa: ${bench} ended with ${await child.exited}\n${problems.slice(-2000)}`);
  return null;
}

function minutes(seconds: number): string {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}
