/** How many viewers a core carries, and what a second worker adds. */
import { swallowPackets } from "../harness/own-network.ts";
import type { Measured } from "../harness/report.ts";
import { Crowd, PACKETS_PER_SECOND } from "./crowd.ts";
import { stoa } from "./stoa.ts";

const VIEWERS = 500;
/** Who count what they get; the packets of the others are lost on the way, so that this process has time to measure. */
const SEEN = 20;
const SATURATED_VIEWERS = 100;

/** One worker with a room of viewers for whom nothing may be late or lost. */
export async function coreCapacity(): Promise<Measured[]> {
  const [contestant] = await stoa();
  const crowd = await Crowd.gather(contestant, "goog-remb");
  await crowd.grow(SEEN);
  await crowd.growUnseen(VIEWERS - SEEN);
  const undo = await swallowPackets();
  const { cpuMicros, lossPercent, p99 } = await crowd.measure(1_000, 4_000);
  await undo();
  await crowd.disperse();
  const name = `1 → ${VIEWERS}, one worker`;
  return [
    { what: name, value: cpuMicros, unit: "CPU-µs per packet" },
    { what: `${name}: loss`, value: lossPercent, unit: "%", goal: { atMost: 0 } },
    { what: `${name}: delay p99`, value: p99, unit: "ms", goal: { atMost: 20 } },
    {
      what: "viewers a core carries, by that CPU time",
      value: 1e6 / (cpuMicros * PACKETS_PER_SECOND),
      unit: "",
      goal: { atLeast: VIEWERS },
    },
  ];
}

/** As many packets as go through, in a room for each worker. */
export async function workerScaling(): Promise<Measured[]> {
  const perSecond: number[] = [];
  for (const workers of [1, 2]) {
    const crowds = await Promise.all((await stoa({ workers }, workers)).map((room) => Crowd.gather(room, "goog-remb")));
    for (const crowd of crowds) {
      await crowd.grow(1);
      await crowd.growUnseen(SATURATED_VIEWERS - 1);
    }
    const undo = await swallowPackets();
    await Promise.all(crowds.map((crowd) => crowd.saturate(1_500)));
    const rates = await Promise.all(crowds.map((crowd) => crowd.saturate(4_000)));
    perSecond.push(rates.reduce((total, rate) => total + rate, 0));
    await undo();
    for (const crowd of crowds) await crowd.disperse();
  }
  const [one = Number.NaN, two = Number.NaN] = perSecond;
  return [
    { what: "one worker, as fast as it goes", value: one, unit: "packets/s" },
    { what: "two workers", value: two, unit: "packets/s" },
    { what: "two workers against one", value: two / one, unit: "×" },
  ];
}
