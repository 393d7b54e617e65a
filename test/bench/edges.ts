/** edges: deliveries per second to many sockets of one room, at one server and at two edges; `bin/bench edges [sockets] [rounds] [seconds]` */
import { installPackages } from "../../bin/debian-packages.ts";
import { Group, readyz } from "../cluster/group.ts";
import { testPostgres } from "../harness/postgres.ts";
import type { Backend } from "./chat/backend.ts";
import { type Ceiling, deliveryCeiling } from "./chat/scenarios.ts";
import { stoa, stoaAt } from "./chat/stoa.ts";
import { median, report } from "./harness/report.ts";

const sockets = Number(process.argv[2] ?? 5_000);
const rounds = Number(process.argv[3] ?? 2);
const seconds = Number(process.argv[4] ?? 8);

await installPackages(["postgresql", "haproxy", "nginx-light", "caddy"]);
const postgres = await testPostgres();

/** A leader with a standby and two edges, between which clients take turns. */
async function withEdges(): Promise<Backend> {
  const group = new Group(await postgres.database());
  const leader = await group.startFirst();
  await group.leader();
  await group.start("second");
  const edges = [await group.start("edge-1", { ROLE: "edge" }), await group.start("edge-2", { ROLE: "edge" })];
  for (const { url } of edges) while ((await readyz(url))?.status !== "ready") await Bun.sleep(50);
  let turn = 0;
  const call = async (method: string, path: string, body?: unknown) => {
    const headers = { authorization: `Bearer ${group.key}`, "content-type": "application/json" };
    const response = await fetch(`${leader.url}${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
    return response.json();
  };
  const token = async (userId: string) => (await call("POST", "/v1/chat/tokens", { userId, ttlSeconds: 21_600 })).token;
  const child = {
    get url() {
      return edges[turn++ % edges.length]?.url ?? leader.url;
    },
    pid: leader.process.pid,
    call,
    token,
  };
  const besides = edges.map(({ process }) => process.pid);
  return { ...stoaAt(child, () => group.close()), besides };
}

const alone = await stoa();
const edges = await withEdges();
type Deliveries = Ceiling & { wrong: number };
const measured = { alone: [] as Deliveries[], edges: [] as Deliveries[] };
for (let round = 0; round < rounds; round++) {
  measured.alone.push(await deliveryCeiling(alone, seconds, round, sockets));
  measured.edges.push(await deliveryCeiling(edges, seconds, round, sockets));
}
await alone.stop();
await edges.stop();
await postgres.close();

const rate = (list: Ceiling[]) => median(list.map(({ perSecond }) => perSecond));
const cost = (list: Ceiling[]) => median(list.map(({ cpuMicros }) => cpuMicros));
/** Per delivery to anybody; each of them has half of those. */
const ofAnEdge = median(measured.edges.map(({ besidesMicros = [] }) => Math.max(...besidesMicros)));
const busiest = Math.max(cost(measured.edges), ofAnEdge);
report(
  "edges",
  [
    { what: "sockets in one room", value: sockets, unit: "" },
    { what: "one server", value: rate(measured.alone), unit: "deliveries/s" },
    { what: "two edges", value: rate(measured.edges), unit: "deliveries/s" },
    { what: "ratio on one machine", value: rate(measured.edges) / rate(measured.alone), unit: "" },
    { what: "CPU of one server per delivery", value: cost(measured.alone), unit: "µs" },
    { what: "CPU of the leader per delivery", value: cost(measured.edges), unit: "µs" },
    {
      what: "deliveries for the same CPU of the leader",
      value: cost(measured.alone) / cost(measured.edges),
      unit: "times",
    },
    { what: "CPU of the busier edge per delivery", value: ofAnEdge, unit: "µs" },
    // In production each server has its own machine; here they share two cores with each other, the standby and the clients. How
    // much all of them could carry is derived from how much of its core the busiest needs for a delivery.
    {
      what: "deliveries per second when each has a core",
      value: cost(measured.alone) / busiest,
      unit: "times",
      goal: { atLeast: 1.6 },
    },
    {
      what: "sockets at edges that missed or got twice, messages out of order",
      value: measured.edges.reduce((sum, { wrong }) => sum + wrong, 0),
      unit: "",
      goal: { atMost: 0 },
    },
  ],
  measured,
);
process.exit();
