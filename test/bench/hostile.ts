/** hostile: every attack at once beside honest calls and chat; `bin/bench hostile [seconds] [calls] [chat users] [attackers] [attack,…]` */
import type { ChatReport } from "../../src/ops/load-test/chat-load.ts";
import { report } from "./harness/report.ts";
import type { Attack } from "./hostile/attacks.ts";
import { openField } from "./hostile/field.ts";
import { honestly, watchHealth } from "./hostile/honest.ts";
import { SHARE, watchThreads } from "./hostile/machine.ts";

const [seconds = 300, calls = 50, users = 300, attackers = 3] = process.argv.slice(2, 6).map(Number);
/** Names of attacks; all of them unless given. */
const only = (process.argv[6]?.split(",") as Attack[] | undefined) ?? null;
const QUIET_SECONDS = Math.min(10, seconds);
/**
 * After attacks, until memory is looked at: the same before and after what is measured, however short, and the calls go on in both.
 * Twice as long as the main thread takes from one collection to the next (as-installed.ts): after one alone, what the attacks of the
 * warming-up left behind was at times still there, counted as memory of before, and made a server look good that is not.
 */
const REST_SECONDS = 60;
/**
 * How long memory is looked at: packets of calls leave buffers behind, which a media worker collects every few seconds, and
 * what grew old beside them only every half minute or later. Memory swings between collections of either kind, attacked or
 * not: two single looks would compare where in that swing they happened to fall, and so would two short ones.
 */
const SWING_SECONDS = Math.min(90, seconds);
const field = await openField(attackers);
const { url, key, pid, attack, state, memoryMiB, ownMemoryMiB } = field;

/** Over a whole swing. */
async function memory() {
  const [all, own]: [number[], number[]] = [[], []];
  for (let look = 0; look < SWING_SECONDS; look++) {
    all.push(memoryMiB());
    own.push(ownMemoryMiB());
    await Bun.sleep(1_000);
  }
  return { all: swingOf(all), own: swingOf(own), thread: (await state()).memory };
}

function swingOf(looks: readonly number[]) {
  const mean = looks.reduce((sum, one) => sum + one, 0) / looks.length;
  return { lowest: Math.min(...looks), mean, highest: Math.max(...looks) };
}

/** Runs honest chat for this long, and measures the server meanwhile. */
async function watched(durationSeconds: number) {
  await state();
  const health = watchHealth(url);
  const threads = watchThreads(pid);
  const chat: ChatReport & { ownLatenessP99: number } = await new Response(
    honestly("chat.ts", url, key, users, durationSeconds).stdout,
  ).json();
  const spent = threads();
  return { chat, threads: spent, health: await health(), turns: await state(), memoryMiB: memoryMiB() };
}

console.log(`${seconds} s, ${calls} calls, ${users} chat users, ${attackers} attackers; ${SHARE}`);
try {
  const talking = honestly("calls.ts", url, key, calls);
  const said = talking.stdout.pipeThrough(new TextDecoderStream()).getReader();
  // All are up.
  await said.read();
  // Code that is used for the first time is compiled and loaded now: that memory is the server's own, whichever client comes first.
  const chatting = honestly("chat.ts", url, key, users, QUIET_SECONDS);
  await Promise.all([attack(QUIET_SECONDS, only), new Response(chatting.stdout).text()]);
  await Bun.sleep(REST_SECONDS * 1000);
  const memoryBefore = await memory();

  const { chat: quiet, ...before } = await watched(QUIET_SECONDS);
  const attacking = attack(seconds, only);
  const { chat: honest, ...during } = await watched(seconds);
  const attacks = await attacking;
  await Bun.sleep(REST_SECONDS * 1000);
  const memoryAfter = await memory();
  talking.stdin.end();
  let told = "";
  for (let part = await said.read(); !part.done; part = await said.read()) told += part.value;
  const ended = JSON.parse(told) as { longest: number; refused: number }[];

  const refused = (counts: Record<string, number>) => Object.values(counts).reduce((sum, count) => sum + count, 0);
  report(
    "hostile",
    [
      {
        what: "longest freeze of an honest call",
        value: Math.max(0, ...ended.map(({ longest }) => longest)),
        unit: "ms",
        goal: { atMost: 1000 },
      },
      {
        what: "honest acknowledgements, p99",
        value: honest.ackMs.p99 ?? Number.NaN,
        unit: "ms",
        goal: { atMost: 250 },
      },
      { what: "the same without attackers", value: quiet.ackMs.p99 ?? Number.NaN, unit: "ms" },
      { what: "who waits for them late itself by, p99", value: honest.ownLatenessP99, unit: "ms" },
      {
        what: "honest requests refused, sends lost and calls ended",
        value:
          refused(honest.refused) +
          refused(honest.notAcknowledged) +
          honest.lost +
          ended.reduce((sum, one) => sum + one.refused, 0),
        unit: "",
        goal: { atMost: 0 },
      },
      {
        what: "attacks a second",
        value: attacks.reduce((sum, counts) => sum + refused(counts), 0) / seconds,
        unit: "",
      },
      { what: "processor time of the server's main thread", value: during.threads.main * 100, unit: "%" },
      { what: "of its other threads", value: during.threads.others * 100, unit: "%" },
      { what: "waiting of its main thread for a processor", value: during.threads.mainWaited * 100, unit: "%" },
      {
        what: "/healthz p99 under attack, times its quiet value",
        value: during.health.p99 / before.health.p99,
        unit: "",
        goal: { atMost: 5 },
      },
      { what: "turns of the server's main thread late by, p99 quiet", value: before.turns.p99, unit: "ms" },
      { what: "the same under attack", value: during.turns.p99, unit: "ms" },
      { what: "who asks for /healthz late itself by, p99 quiet", value: before.health.ownLateness.p99, unit: "ms" },
      { what: "the same under attack", value: during.health.ownLateness.p99, unit: "ms" },
      {
        what: "memory under attack more than before",
        value: during.memoryMiB - memoryBefore.all.mean,
        unit: "MiB",
        goal: { atMost: 200 },
      },
      {
        what: "memory afterwards more than before",
        value: (memoryAfter.own.mean / memoryBefore.own.mean - 1) * 100,
        unit: "%",
        goal: { atMost: 10 },
      },
      {
        what: "the same right after a collection",
        value: (memoryAfter.own.lowest / memoryBefore.own.lowest - 1) * 100,
        unit: "%",
      },
      {
        what: "the same with the files that are mapped, such as the database",
        value: (memoryAfter.all.mean / memoryBefore.all.mean - 1) * 100,
        unit: "%",
      },
    ],
    { seconds, calls, users, attackers, share: SHARE, before, during, memoryBefore, memoryAfter, attacks },
  );
} finally {
  await field.close();
}
process.exit();
