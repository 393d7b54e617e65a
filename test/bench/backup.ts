/** backup: how long a message waits for its acknowledgement while 100 MB are backed up, beside as long a time without */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { stoa } from "../cli/stoa.ts";
import { BackedUp } from "../ops/backed-up.ts";
import { median, report } from "./harness/report.ts";

const ROUNDS = Number(process.argv[2] ?? 5);

const server = await BackedUp.start();
const archive = join(server.work, "bench.tar");
const beside = () => stoa(["backup", archive, "--data-dir", server.dataDir]);
const rounds: { quiet: number; scheduled: number; beside: number }[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const quiet = await longestWait(Bun.sleep(2_000));
  const scheduled = await longestWait(server.make("thread", archive));
  rounds.push({ quiet, scheduled, beside: await longestWait(beside()) });
}
rmSync(archive);
const blocking = await longestWait(server.make("blocking", archive));
await server.stop();

const of = (figure: keyof (typeof rounds)[number]) => median(rounds.map((round) => round[figure]));
report(
  "backup",
  [
    { what: "longest wait, no backup", value: of("quiet"), unit: "ms" },
    { what: "longest wait, scheduled backup", value: of("scheduled"), unit: "ms" },
    { what: "longest wait, `stoa backup` beside the server", value: of("beside"), unit: "ms" },
    { what: "longest wait, a copy on the thread that serves", value: blocking, unit: "ms" },
    { what: "added by a scheduled backup", value: of("scheduled") - of("quiet"), unit: "ms", goal: { atMost: 50 } },
    { what: "added by `stoa backup`", value: of("beside") - of("quiet"), unit: "ms", goal: { atMost: 50 } },
  ],
  { rounds },
);

/** One message after the other while `work` runs. */
async function longestWait(work: Promise<unknown>): Promise<number> {
  let over = false;
  const ended = work.finally(() => {
    over = true;
  });
  let longest = 0;
  while (!over) {
    const sentAt = performance.now();
    await server.send();
    longest = Math.max(longest, performance.now() - sentAt);
  }
  await ended;
  return longest;
}
