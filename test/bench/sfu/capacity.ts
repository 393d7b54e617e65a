/** How many viewers a core carries, and what a second worker adds. */
import { swallowPackets } from "../harness/own-network.ts";
import { cpuNanos } from "../harness/processes.ts";
import type { Measured } from "../harness/report.ts";
import { Crowd, type Figures, PACKETS_PER_SECOND } from "./crowd.ts";
import { stoa } from "./stoa.ts";

const VIEWERS = 500;
/** A number of viewers with which even a busy machine keeps up, for measuring the cost of a packet. */
const FEWER_VIEWERS = 200;
/** The viewers who count what they get. Packets to the others are dropped on the way, so that this process has time to measure. */
const SEEN = 20;
const SATURATED_VIEWERS = 100;

/** One worker with a room of viewers for whom nothing may be late or lost. */
export async function coreCapacity(): Promise<Measured[]> {
  const [contestant] = await stoa();
  const crowd = await Crowd.gather(contestant, "goog-remb");
  await crowd.grow(SEEN);
  const rounds: Figures[] = [];
  for (const viewers of [FEWER_VIEWERS, VIEWERS]) {
    await crowd.growUnseen(viewers - SEEN);
    const undo = await swallowPackets();
    rounds.push(await crowd.measure(1_000, 4_000));
    await undo();
  }
  await crowd.disperse();
  const [fewer, all] = rounds;
  if (!fewer || !all) return [];
  const name = `1 → ${VIEWERS}, one worker`;
  return [
    { what: `${name}: loss`, value: all.lossPercent, unit: "%", goal: { atMost: 0 } },
    { what: `${name}: delay p99`, value: all.p99, unit: "ms", goal: { atMost: 20 } },
    { what: name, value: all.cpuMicros, unit: "CPU-µs per packet" },
    { what: `1 → ${FEWER_VIEWERS}, one worker`, value: fewer.cpuMicros, unit: "CPU-µs per packet" },
    {
      what: "viewers a core carries, projected from that",
      value: 1e6 / (fewer.cpuMicros * PACKETS_PER_SECOND),
      unit: "",
      goal: { atLeast: VIEWERS },
    },
  ];
}

/** The highest packet rate, with one room for each worker. */
export async function workerScaling(): Promise<Measured[]> {
  const one = await saturated(1);
  const two = await saturated(2);
  return [
    { what: "one worker, as fast as it goes", value: one.perSecond, unit: "packets/s" },
    { what: "two workers", value: two.perSecond, unit: "packets/s" },
    { what: "two workers against one", value: two.perSecond / one.perSecond, unit: "×", goal: { atLeast: 1.7 } },
    { what: "CPU time of a packet, two workers against one", value: two.cpuMicros / one.cpuMicros, unit: "×" },
  ];
}

async function saturated(workers: number): Promise<{ perSecond: number; cpuMicros: number }> {
  const rooms = await stoa({ workers }, workers);
  const crowds = await Promise.all(rooms.map((room) => Crowd.gather(room, "goog-remb")));
  for (const crowd of crowds) {
    await crowd.grow(1);
    await crowd.growUnseen(SATURATED_VIEWERS - 1);
  }
  const undo = await swallowPackets();
  const drive = (durationMs: number) => Promise.all(crowds.map((crowd) => crowd.saturate(durationMs)));
  await drive(3_000);
  const [{ pid }] = rooms;
  const cpu = cpuNanos(pid);
  const startedAt = performance.now();
  const perSecond = (await drive(4_000)).reduce((total, rate) => total + rate, 0);
  const packets = (perSecond * (performance.now() - startedAt)) / 1_000;
  const cpuMicros = (cpuNanos(pid) - cpu) / 1_000 / packets;
  await undo();
  for (const crowd of crowds) await crowd.disperse();
  return { perSecond, cpuMicros };
}
