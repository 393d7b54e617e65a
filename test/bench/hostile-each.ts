/** hostile-each: one attack after the other, each alone, and what it does to others; `bin/bench hostile-each [seconds] [attackers] [attack,…]` */
import { type Measured, report } from "./harness/report.ts";
import { ATTACKS, type Attack } from "./hostile/attacks.ts";
import { openField } from "./hostile/field.ts";
import { ENOUGH_ANSWERS, ENOUGH_SECONDS, watchHealth } from "./hostile/honest.ts";
import { SHARE, watchThreads } from "./hostile/machine.ts";

const [seconds = ENOUGH_SECONDS + 1, attackers = 1] = process.argv.slice(2, 4).map(Number);
const names = (process.argv[4]?.split(",") as Attack[] | undefined) ?? ATTACKS;
const unknown = names.filter((name) => !ATTACKS.includes(name));
if (unknown.length > 0) throw new Error(`no attack is called ${unknown.join(", ")}; there are: ${ATTACKS.join(", ")}`);
if (seconds < ENOUGH_SECONDS) throw new Error(`${ENOUGH_SECONDS} seconds at the least, for ${ENOUGH_ANSWERS} answers`);
const field = await openField(attackers);
const { url, attack, state, memoryMiB, pid } = field;

/** How `/healthz` was answered during `work`, always to the same client, and the highest memory. */
async function watched<T>(work: () => Promise<T>) {
  await state();
  const health = watchHealth(url);
  const threads = watchThreads(pid);
  let mostMiB = memoryMiB();
  const looking = setInterval(() => {
    mostMiB = Math.max(mostMiB, memoryMiB());
  }, 200);
  const result = await work();
  clearInterval(looking);
  const spent = threads();
  const answered = await health();
  const { p99, longest, ownWait, memory } = await state();
  if (answered.asked < ENOUGH_ANSWERS) throw new Error(`only ${answered.asked} answers: no 99th percentile`);
  return { result, health: answered, threads: spent, turns: { p99, longest, ownWait }, heap: memory.heapUsed, mostMiB };
}

console.log(`${seconds} s each, ${attackers} attackers, nobody else; ${SHARE}`);
const rows: Record<string, string | number>[] = [];
const figures: Measured[] = [];
try {
  for (const name of names) {
    // Code that is used for the first time is compiled and loaded now.
    await attack(Math.min(3, seconds), [name]);
    await Bun.sleep(3_000);
    const quiet = await watched(() => Bun.sleep(ENOUGH_SECONDS * 1_000));
    const beforeMiB = memoryMiB();
    const under = await watched(() => attack(seconds, [name]));
    const times = under.health.p99 / quiet.health.p99;
    const moreMiB = under.mostMiB - beforeMiB;
    figures.push(
      { what: `${name}: /healthz p99, times its quiet value`, value: times, unit: "", goal: { atMost: 5 } },
      { what: `${name}: /healthz not answered`, value: under.health.failed, unit: "", goal: { atMost: 0 } },
      { what: `${name}: memory more than before, at its most`, value: moreMiB, unit: "MiB", goal: { atMost: 200 } },
    );
    rows.push({
      attack: name,
      "a second": Math.round(under.result.reduce((sum, counts) => sum + (counts[name] ?? 0), 0) / seconds),
      times: Number(times.toFixed(1)),
      "p99 ms": Number(under.health.p99.toFixed(2)),
      "quiet ms": Number(quiet.health.p99.toFixed(2)),
      "p50 ms": Number(under.health.p50.toFixed(2)),
      "asker late ms": Number(under.health.ownLateness.p99.toFixed(2)),
      "turns late ms": Number(under.turns.p99.toFixed(1)),
      // By the CPU time of the server: on a shared machine, that figure depends only on the server.
      "own turns ms": Number(under.turns.ownWait.toFixed(2)),
      "longest ms": Math.round(under.turns.longest),
      "main %": Math.round(under.threads.main * 100),
      "others %": Math.round(under.threads.others * 100),
      "waited %": Math.round(under.threads.mainWaited * 100),
      "quiet waited %": Number((quiet.threads.mainWaited * 100).toFixed(1)),
      "MiB more": Math.round(moreMiB),
      "heap MiB": Math.round(under.heap / 1_048_576),
    });
    console.log(JSON.stringify(rows.at(-1)));
  }
  console.table(rows);
  report("hostile-each", figures, { seconds, attackers, share: SHARE, rows });
} finally {
  await field.close();
}
process.exit();
