/**
 * What the first room of a worker costs at first, compared with a room on a worker that has run for a minute; the difference is
 * mostly JIT compilation. Both are measured at the same time, because a machine's speed varies.
 */
import type { Measured } from "../harness/report.ts";
import { Crowd } from "./crowd.ts";
import { stoa } from "./stoa.ts";

const VIEWERS = 2;
const FIRST_MS = 10_000;
const GROWN_MS = 60_000;

export async function youngRoom(): Promise<Measured[]> {
  const grown = await gather();
  await grown.measure(0, GROWN_MS);
  const young = await gather();
  const [first, later] = await Promise.all([young.measure(0, FIRST_MS), grown.measure(0, FIRST_MS)]);
  await Promise.all([young.disperse(), grown.disperse()]);
  const what = `1 → ${VIEWERS}, first ten seconds of a worker`;
  return [
    { what, value: first.cpuMicros, unit: "CPU-µs per packet" },
    {
      what: `1 → ${VIEWERS}, of one that is a minute old, meanwhile`,
      value: later.cpuMicros,
      unit: "CPU-µs per packet",
    },
    { what: `${what} against later`, value: first.cpuMicros / later.cpuMicros, unit: "×", goal: { atMost: 1.3 } },
  ];
}

async function gather(): Promise<Crowd> {
  const [contestant] = await stoa();
  const crowd = await Crowd.gather(contestant, "transport-cc", true);
  await crowd.grow(VIEWERS);
  return crowd;
}
