/** One stream for ever more viewers, on one worker: up to how many nothing is lost, and what ends it. */
import { swallowPackets } from "../harness/own-network.ts";
import { cpuNanos, rssMegabytes, threadNanos } from "../harness/processes.ts";
import type { Measured } from "../harness/report.ts";
import type { Contestant } from "./contestant.ts";
import { Crowd, type Feedback, type Figures, type VideoShape } from "./crowd.ts";
import { udpOf } from "./udp-counters.ts";

/** The viewers who count what they get. Packets to the others are dropped on the way, so that this process has time to measure. */
export const SEEN = 20;
const WARM_UP_MS = 1_000;
const MEASURED_MS = 5_000;
/** A CPU with this load counts as full. */
const FULL_PERCENT = 95;

type Step = Figures & {
  viewers: number;
  serverPercent: number;
  /** The load of the server's busiest thread. */
  threadPercent: number;
  /** The time in which it waited for a core that others used. */
  threadWaitedPercent: number;
  peersPercent: number;
  megabytes: number;
  /** The share of the packets to be sent that reached the network. */
  sentPercent: number;
  /** Packets dropped because a socket was full: from the publisher to the server, and from the server to the counting viewers. */
  droppedAtServer: number;
  droppedAtPeers: number;
  /** Packets that the server could not hand to the kernel. */
  unsent: number;
};

export async function manyViewers(
  contestant: Contestant,
  steps: readonly number[],
  feedback: Feedback,
  shape: VideoShape,
  where = "one worker",
): Promise<{ figures: Measured[]; steps: Step[] }> {
  const crowd = await Crowd.gather(contestant, feedback, true, shape);
  await crowd.grow(SEEN);
  const { packetBytes, perSecond } = shape;
  console.log(
    `${SEEN} who count packets, by ${feedback}; the others, by REMB, lose what they get: ${packetBytes}-byte video, ${perSecond} a second`,
  );
  const results: Step[] = [];
  let ended = "";
  for (const viewers of steps) {
    const startedAt = performance.now();
    await crowd.growUnseen(viewers - SEEN);
    const joined = ((performance.now() - startedAt) / 1_000).toFixed(0);
    const step = await measured(crowd, viewers);
    results.push(step);
    ended = step.lossPercent > 0 ? reason(step) : "";
    console.error(line(step, `joined in ${joined} s${ended && `; ${ended}`}`));
    // With more viewers, only more packets would be lost.
    if (ended !== "") break;
  }
  await crowd.disperse();
  const most = Math.max(0, ...results.filter(({ lossPercent }) => lossPercent === 0).map(({ viewers }) => viewers));
  const own = contestant.name === "Stoa";
  const goal = own ? { goal: { atLeast: Math.max(...steps) } } : {};
  const label = (what: string) => (own ? what : `${contestant.name}: ${what}`);
  const what = `viewers without loss, ${where}${ended && ` (ended by ${ended})`}`;
  const figures: Measured[] = [
    ...results.flatMap((step) => figuresOf(step, where)),
    { what, value: most, unit: "", ...goal },
  ];
  return { figures: figures.map((figure) => ({ ...figure, what: label(figure.what) })), steps: results };
}

export async function measured(crowd: Crowd, viewers: number): Promise<Step> {
  const { pid } = crowd.contestant;
  const undo = await swallowPackets();
  const state = () => ({
    server: cpuNanos(pid),
    threads: threadNanos(pid),
    peers: cpuNanos(process.pid),
    at: performance.now(),
    udp: [udpOf(pid), udpOf(process.pid)] as const,
  });
  const before = state();
  const figures = await crowd.measure(WARM_UP_MS, MEASURED_MS);
  const after = state();
  await undo();
  const [server, peers] = after.udp;
  const elapsedMs = after.at - before.at;
  const thread = busiest(before.threads, after.threads);
  const percent = (nanos: number) => (nanos / 1e6 / elapsedMs) * 100;
  return {
    ...figures,
    viewers,
    serverPercent: percent(after.server - before.server),
    threadPercent: percent(thread.ran),
    threadWaitedPercent: percent(thread.waited),
    peersPercent: percent(after.peers - before.peers),
    megabytes: rssMegabytes(pid),
    sentPercent:
      ((server.bytesOut - before.udp[0].bytesOut) / (crowd.bytesPerSecond * (WARM_UP_MS + MEASURED_MS))) * 1e5,
    droppedAtServer: server.dropped - before.udp[0].dropped,
    droppedAtPeers: peers.dropped - before.udp[1].dropped,
    unsent: server.unsent - before.udp[0].unsent,
  };
}

type Threads = ReturnType<typeof threadNanos>;

/** What the busiest thread did meanwhile. */
function busiest(before: Threads, after: Threads): { ran: number; waited: number } {
  const meanwhile = [...after].map(([thread, { ran, waited }]) => ({
    ran: ran - (before.get(thread)?.ran ?? 0),
    waited: waited - (before.get(thread)?.waited ?? 0),
  }));
  return meanwhile.reduce((most, one) => (one.ran > most.ran ? one : most), { ran: 0, waited: 0 });
}

/** What prevents more viewers: the resource that was full. */
function reason(step: Step): string {
  const { threadPercent, threadWaitedPercent, serverPercent, peersPercent } = step;
  if (threadPercent >= FULL_PERCENT) return "the server's thread, which was full";
  if (threadPercent + threadWaitedPercent >= FULL_PERCENT)
    return `the server's thread, which never rested and had a core for ${threadPercent.toFixed(0)} % of the time: others had it`;
  if (serverPercent + peersPercent >= 2 * FULL_PERCENT) return "both cores, which were full";
  if (peersPercent >= FULL_PERCENT) return "the peers, who were full";
  if (step.unsent > 0) return "the server's socket, too full to send";
  if (step.droppedAtServer > 0) return "the server's socket, too full to receive";
  if (step.droppedAtPeers > 0) return "sockets of viewers, too full to receive";
  return "what the server held back because viewers reported queues";
}

function line(step: Step, more: string): string {
  const of = (value: number) => value.toFixed(0);
  const cpu = `${of(step.serverPercent)} % of a core (its busiest thread ${of(step.threadPercent)} %, waiting for a core ${of(step.threadWaitedPercent)} %), peers ${of(step.peersPercent)} %`;
  const drops = `dropped at server ${step.droppedAtServer}, at peers ${step.droppedAtPeers}, unsent ${step.unsent}`;
  return `1 → ${step.viewers}: ${step.lossPercent.toFixed(2)} % lost, server ${cpu}; ${drops}; ${of(step.sentPercent)} % of the bytes on the cable; ${more}`;
}

function figuresOf(step: Step, where: string): Measured[] {
  const what = `1 → ${step.viewers}, ${where}`;
  return [
    { what: `${what}: loss`, value: step.lossPercent, unit: "%" },
    { what: `${what}: delay p50`, value: step.p50, unit: "ms" },
    { what: `${what}: delay p99`, value: step.p99, unit: "ms" },
    { what: `${what}: processor time`, value: step.serverPercent, unit: "% of a core" },
    { what: `${what}: processor time of its busiest thread`, value: step.threadPercent, unit: "% of a core" },
    { what: `${what}: processor time of the peers`, value: step.peersPercent, unit: "% of a core" },
    { what: `${what}: memory`, value: step.megabytes, unit: "MB" },
    { what, value: step.cpuMicros, unit: "CPU-µs per packet" },
  ];
}
