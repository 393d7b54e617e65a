/** One stream for ever more viewers, on one worker: up to how many nothing is lost, and what a packet costs there. */
import { swallowPackets } from "../harness/own-network.ts";
import { cpuNanos, rssMegabytes } from "../harness/processes.ts";
import type { Measured } from "../harness/report.ts";
import { Crowd, type Feedback } from "./crowd.ts";
import { stoa } from "./stoa.ts";

/** Who count what they get; the packets of the others are lost on the way, so that this process has time to measure. */
const SEEN = 20;
const WARM_UP_MS = 1_000;
const MEASURED_MS = 5_000;
/** As one CPU of the server would be full. */
const FULL_PERCENT = 97;

export async function manyViewers(steps: readonly number[], feedback: Feedback): Promise<Measured[]> {
  const [contestant] = await stoa();
  const { pid } = contestant;
  const crowd = await Crowd.gather(contestant, feedback, true);
  await crowd.grow(SEEN);
  const figures: Measured[] = [];
  const most = Math.max(...steps);
  for (const viewers of steps) {
    await crowd.growUnseen(viewers - SEEN);
    const undo = await swallowPackets();
    const before = { cpu: cpuNanos(pid), at: performance.now() };
    const { lossPercent, p50, p99, cpuMicros } = await crowd.measure(WARM_UP_MS, MEASURED_MS);
    const busy = ((cpuNanos(pid) - before.cpu) / 1e6 / (performance.now() - before.at)) * 100;
    await undo();
    const what = `1 → ${viewers}, one worker`;
    const goal = viewers === most ? { goal: { atMost: 0 } } : {};
    figures.push(
      { what: `${what}: loss`, value: lossPercent, unit: "%", ...goal },
      { what: `${what}: delay p50`, value: p50, unit: "ms" },
      { what: `${what}: delay p99`, value: p99, unit: "ms" },
      { what: `${what}: processor time`, value: busy, unit: "% of a core" },
      { what: `${what}: memory`, value: rssMegabytes(pid), unit: "MB" },
      { what, value: cpuMicros, unit: "CPU-µs per packet" },
    );
    console.error(`1 → ${viewers}: ${lossPercent.toFixed(2)} % lost, ${busy.toFixed(0)} % of a core`);
    // More of them would only lose more.
    if (lossPercent > 0 && busy > FULL_PERCENT) break;
  }
  await crowd.disperse();
  return figures;
}
