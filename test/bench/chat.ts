/** chat: the published scenario, ceilings beside ejabberd and socket.io, history, memory; `bin/bench chat [seconds] [rounds]` */

import type { Backend } from "./chat/backend.ts";
import { ejabberd } from "./chat/ejabberd.ts";
import { historyCost } from "./chat/history.ts";
import { memoryPerSocket } from "./chat/memory.ts";
import { type Ceiling, deliveryCeiling, type Published, publishedScenario, sendCeiling } from "./chat/scenarios.ts";
import { socketIo } from "./chat/socketio.ts";
import { stoa } from "./chat/stoa.ts";
import { type Measured, median, report } from "./harness/report.ts";

const SECONDS = Number(process.argv[2] ?? 25);
const ROUNDS = Number(process.argv[3] ?? 3);
const only = process.argv[4]?.split(",");
const CEILING_SECONDS = Math.min(5, SECONDS);

type Result = { name: string; durable: boolean; published: Published; sends: Ceiling; deliveries: Ceiling };

async function measure(start: () => Promise<Backend>): Promise<Result> {
  const backend = await start();
  try {
    const { name, durable } = backend;
    const published = await publishedScenario(backend, SECONDS);
    const sends: Ceiling[] = [];
    const deliveries: Ceiling[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      sends.push(await sendCeiling(backend, CEILING_SECONDS, round));
      deliveries.push(await deliveryCeiling(backend, CEILING_SECONDS, round));
    }
    return { name, durable, published, sends: middle(sends), deliveries: middle(deliveries) };
  } finally {
    await backend.stop();
  }
}

function middle(ceilings: Ceiling[]): Ceiling {
  return { perSecond: median(ceilings.map((c) => c.perSecond)), cpuMicros: median(ceilings.map((c) => c.cpuMicros)) };
}

const backends = { stoa, "socket.io": socketIo, ejabberd };
const results: Result[] = [];
for (const [name, start] of Object.entries(backends)) {
  if (only && !only.includes(name)) continue;
  console.error(`measuring ${name} …`);
  results.push(await measure(start));
}

const figures: Measured[] = [];
for (const { name, durable, published, sends, deliveries } of results) {
  const ours = name === "Stoa";
  const how = durable ? "" : " (not on disk yet)";
  figures.push(
    { what: `${name}: ack p50${how}`, value: published.ack.p50, unit: "ms" },
    { what: `${name}: ack p95`, value: published.ack.p95, unit: "ms" },
    { what: `${name}: ack p99`, value: published.ack.p99, unit: "ms", ...(ours ? { goal: { atMost: 25 } } : {}) },
    { what: `${name}: delivery p50`, value: published.delivery.p50, unit: "ms" },
    { what: `${name}: delivery p95`, value: published.delivery.p95, unit: "ms" },
    { what: `${name}: delivery p99`, value: published.delivery.p99, unit: "ms" },
    {
      what: `${name}: missing or out of order`,
      value: published.missing + published.outOfOrder,
      unit: "",
      ...(ours ? { goal: { atMost: 0 } } : {}),
    },
    { what: `${name}: acknowledged sends`, value: sends.perSecond, unit: "/s" },
    { what: `${name}: per send`, value: sends.cpuMicros, unit: "µs of CPU" },
    { what: `${name}: deliveries to 1,000 sockets`, value: deliveries.perSecond, unit: "/s" },
    { what: `${name}: per delivery`, value: deliveries.cpuMicros, unit: "µs of CPU" },
  );
}
const own = results.find(({ name }) => name === "Stoa");
for (const other of results) {
  if (!own || other === own) continue;
  const against = (what: string, ratio: number): Measured => ({
    what: `${what} against ${other.name}`,
    value: ratio,
    unit: "×",
    goal: { atLeast: 1 },
  });
  figures.push(against("acknowledged sends", own.sends.perSecond / other.sends.perSecond));
  figures.push(against("deliveries", own.deliveries.perSecond / other.deliveries.perSecond));
}

let history = null;
let memory = null;
if (!only || only.includes("stoa")) {
  console.error("measuring history …");
  history = await historyCost();
  figures.push(
    { what: "page of 100 from 1,000 messages", value: history.smallMs, unit: "ms" },
    { what: "page of 100 from 1,000,000 messages", value: history.largeMs, unit: "ms" },
    {
      what: "history: page from 1,000,000 messages against 1,000",
      value: history.largeMs / history.smallMs,
      unit: "×",
      goal: { atMost: 1.5 },
    },
  );
  console.error("measuring memory …");
  memory = await memoryPerSocket(5000);
  figures.push(
    { what: "idle socket, of 5,000", value: memory.bytesConnected / 1024, unit: "KB", goal: { atMost: 10 } },
    {
      what: "idle socket in a conversation, of 5,000",
      value: memory.bytesJoined / 1024,
      unit: "KB",
      goal: { atMost: 10 },
    },
  );
}
report("chat", figures, { results, history, memory });
process.exit();
