/** What the first room of a worker costs at first, and what it costs later: the JIT takes its share in between. */
import type { Measured } from "../harness/report.ts";
import { Crowd } from "./crowd.ts";
import { stoa } from "./stoa.ts";

const VIEWERS = 2;
const FIRST_MS = 10_000;
const BETWEEN_MS = 50_000;

export async function youngRoom(): Promise<Measured[]> {
  const [contestant] = await stoa();
  const crowd = await Crowd.gather(contestant, "transport-cc", true);
  await crowd.grow(VIEWERS);
  const first = await crowd.measure(0, FIRST_MS);
  const later = await crowd.measure(BETWEEN_MS, FIRST_MS);
  await crowd.disperse();
  const what = `1 → ${VIEWERS}, first ten seconds of a worker`;
  return [
    { what, value: first.cpuMicros, unit: "CPU-µs per packet" },
    { what: `1 → ${VIEWERS}, a minute later`, value: later.cpuMicros, unit: "CPU-µs per packet" },
    { what: `${what} against later`, value: first.cpuMicros / later.cpuMicros, unit: "×", goal: { atMost: 1.3 } },
  ];
}
