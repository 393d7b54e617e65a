/** edge: what the one port costs, beside going past it and beside coturn, and how it stands attacks. `bin/bench edge [PART…]` */

import { installPackages } from "../../bin/debian-packages.ts";
import { underAttack } from "./edge/attacks.ts";
import { pageToPicture } from "./edge/calls.ts";
import { measureChanges } from "./edge/changes.ts";
import { measureHttp2 } from "./edge/http2.ts";
import { lossyCalls } from "./edge/lossy.ts";
import { watchThrough } from "./edge/relayed-room.ts";
import { renewals } from "./edge/renewals.ts";
import { measureRequests } from "./edge/requests.ts";
import { measureRevocation } from "./edge/revocation.ts";
import { startEdgeServer } from "./edge/server.ts";
import { measureSockets } from "./edge/sockets.ts";
import { type Measured, median, report } from "./harness/report.ts";

const wanted = process.argv.slice(2);
await installPackages([
  "pebble",
  "coturn",
  "chromium",
  "python3",
  "nginx-light",
  "caddy",
  "iproute2",
  "nftables",
  "gcc",
  "libc6-dev",
  "libssl-dev",
]);
// Certificates are made for each run.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";

/**
 * The edge may add 20 µs to an echo where one that a server answers which ends TLS itself takes 13 µs. Microseconds are the
 * machine's, so what is held is the proportion, (13 + 20) / 13.
 */
const MOST_OF_A_DIRECT_ECHO = 2.5;

async function sockets(): Promise<Measured[]> {
  const { edgeMicros, loopbackMicros, directMicros, hopMicros, quietestMicros, idleKilobytes } = await measureSockets();
  return [
    { what: "echo over a WebSocket, p50, through the edge", value: edgeMicros, unit: "µs" },
    { what: "the same from a server that ends TLS itself", value: directMicros, unit: "µs" },
    { what: "against that", value: edgeMicros / directMicros, unit: "", goal: { atMost: MOST_OF_A_DIRECT_ECHO } },
    { what: "more than that", value: edgeMicros - directMicros, unit: "µs" },
    { what: "more than that, in the quietest round of each", value: quietestMicros, unit: "µs" },
    {
      what: "the same through loopback in place of the inner socket",
      value: loopbackMicros - directMicros,
      unit: "µs",
    },
    {
      what: "the same through a thread in C that only passes bytes on, TLS and all, in place of the edge",
      value: hopMicros - directMicros,
      unit: "µs",
    },
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
  rest: measureRequests,
  http2: measureHttp2,
  sockets,
  relay,
  calls: pageToPicture,
  lossy: () => lossyCalls("chromium", 45),
  "lossy-firefox": () => lossyCalls("firefox", 45),
  attacks: () => underAttack(20),
  changes: measureChanges,
  renewals: () => renewals(20),
  revocation: measureRevocation,
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
