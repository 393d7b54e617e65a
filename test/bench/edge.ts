/** edge: what the one port costs, beside going past it and beside coturn, and how it stands attacks. `bin/bench edge [PART…]` */

import { underAttack } from "./edge/attacks.ts";
import { lossyCall, pageToPicture } from "./edge/calls.ts";
import { watchThrough } from "./edge/relayed-room.ts";
import { renewals } from "./edge/renewals.ts";
import { startEdgeServer } from "./edge/server.ts";
import { measureSockets } from "./edge/sockets.ts";
import { requestsPerSecond } from "./harness/http-load.ts";
import { mainThreadNanos } from "./harness/processes.ts";
import { type Measured, median, report } from "./harness/report.ts";

const wanted = process.argv.slice(2);
const ROUNDS = 5;

/** Microseconds of the main thread for a request, through the edge and past it, in turns. */
async function rest(): Promise<Measured[]> {
  const server = await startEdgeServer();
  const headers = { authorization: `Bearer ${server.apiKey}` };
  const load = { headers, connections: 32, pipelined: 1, durationMs: 1_500 };
  const measure = async (url: string) => {
    const before = mainThreadNanos(server.pid);
    const { requests } = await requestsPerSecond({ ...load, url: `${url}/v1/project` });
    return (mainThreadNanos(server.pid) - before) / 1_000 / requests;
  };
  const ways = { edge: `https://127.0.0.1:${server.edgePort}`, direct: server.url };
  const times: { edge: number[]; direct: number[] } = { edge: [], direct: [] };
  try {
    for (const url of Object.values(ways)) await measure(url);
    for (let round = 0; round < ROUNDS; round++) {
      times.edge.push(await measure(ways.edge));
      times.direct.push(await measure(ways.direct));
    }
  } finally {
    await server.stop();
  }
  const [edge, direct] = [median(times.edge), median(times.direct)];
  return [
    { what: "main thread, a request through the edge", value: edge, unit: "µs of CPU" },
    { what: "main thread, a request past it, without TLS", value: direct, unit: "µs of CPU" },
    { what: "through the edge against past it", value: edge / direct, unit: "", goal: { atMost: 1.1 } },
  ];
}

async function sockets(): Promise<Measured[]> {
  const { edgeMicros, directMicros, idleKilobytes } = await measureSockets();
  return [
    { what: "echo over a WebSocket, p50, through the edge", value: edgeMicros, unit: "µs" },
    { what: "the same from a server that ends TLS itself", value: directMicros, unit: "µs" },
    { what: "more than that", value: edgeMicros - directMicros, unit: "µs", goal: { atMost: 20 } },
    { what: "memory of an idle WebSocket over TLS", value: idleKilobytes, unit: "KB", goal: { atMost: 10 } },
  ];
}

async function relay(): Promise<Measured[]> {
  const server = await startEdgeServer();
  const VIEWERS = 20;
  const SECONDS = 6;
  const own: number[] = [];
  const coturn: number[] = [];
  try {
    await watchThrough(server, "own", 5, 2);
    for (let round = 0; round < 3; round++) {
      for (const [which, times] of [
        ["own", own],
        ["coturn", coturn],
      ] as const) {
        const watched = await watchThrough(server, which, VIEWERS, SECONDS);
        console.log(which, JSON.stringify(watched));
        times.push(watched.microsPerPacket);
      }
    }
  } finally {
    await server.stop();
  }
  return [
    { what: "a packet to a viewer over TURN and TLS, everything", value: median(own), unit: "µs of CPU" },
    { what: "the same with coturn", value: median(coturn), unit: "µs of CPU" },
    { what: "against coturn", value: median(own) / median(coturn), unit: "", goal: { atMost: 1.2 } },
  ];
}

const parts: Record<string, () => Promise<Measured[]>> = {
  rest,
  sockets,
  relay,
  calls: pageToPicture,
  lossy: () => lossyCall(45),
  attacks: () => underAttack(20),
  renewals: () => renewals(20),
};
const figures: Measured[] = [];
for (const [name, measure] of Object.entries(parts)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const measured = await measure();
  for (const { what, value, unit } of measured) console.log(`${what}: ${value.toPrecision(4)} ${unit}`);
  figures.push(...measured);
}
report("edge", figures);
process.exit();
