/** hostile-each: one attack after the other, each alone, and what it does to the server; `bin/bench hostile-each [seconds] [attackers] [attack,…]` */
import { ATTACKS, type Attack } from "./hostile/attacks.ts";
import { openField } from "./hostile/field.ts";
import { SHARE, watchThreads } from "./hostile/machine.ts";

const [seconds = 5, attackers = 1] = process.argv.slice(2, 4).map(Number);
const names = (process.argv[4]?.split(",") as Attack[] | undefined) ?? ATTACKS;
const field = await openField(attackers);
const { attack, state, memoryMiB, pid } = field;

console.log(`${seconds} s each, ${attackers} attackers, nobody else; ${SHARE}`);
const rows: Record<string, string | number>[] = [];
try {
  for (const name of names) {
    // What is used for the first time is compiled and loaded.
    await attack(Math.min(3, seconds), [name]);
    await Bun.sleep(2_000);
    await state();
    const beforeMiB = memoryMiB();
    const threads = watchThreads(pid);
    const attacks = await attack(seconds, [name]);
    const { main, others, mainWaited } = threads();
    const { p99, longest, memory } = await state();
    const rate = attacks.reduce((sum, counts) => sum + (counts[name] ?? 0), 0) / seconds;
    rows.push({
      attack: name,
      "a second": Math.round(rate),
      "main %": Math.round(main * 100),
      "others %": Math.round(others * 100),
      "waited %": Math.round(mainWaited * 100),
      "late p99 ms": Number(p99.toFixed(1)),
      "longest ms": Math.round(longest),
      "MiB more": Math.round(memoryMiB() - beforeMiB),
      "heap MiB": Math.round(memory.heapUsed / 1_048_576),
      "RSS MiB": Math.round(memoryMiB()),
    });
    console.log(JSON.stringify(rows.at(-1)));
  }
  console.table(rows);
} finally {
  await field.close();
}
process.exit();
