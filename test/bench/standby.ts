/** standby: sends per second with a commit log in Postgres and without, and takeovers under load; `bin/bench standby [rounds] [kills]` */
import { installPackages } from "../../bin/debian-packages.ts";
import { checkoutOf, upgrade } from "../cluster/checkout.ts";
import { Group, readyz } from "../cluster/group.ts";
import { giveAddress, Load } from "../cluster/load.ts";
import { NodeCall, WITH_NODES } from "../cluster/node-call.ts";
import { testPostgres } from "../harness/postgres.ts";
import { until } from "../nodes/remote/until.ts";
import { openPage } from "../web/sdk/page.ts";
import type { Backend } from "./chat/backend.ts";
import { type Ceiling, publishedScenario, sendCeiling } from "./chat/scenarios.ts";
import { stoaAt } from "./chat/stoa.ts";
import { PATIENCE_MS, within } from "./harness/patience.ts";
import { cpuMicrosOfAll } from "./harness/processes.ts";
import { type Measured, median, percentile, report } from "./harness/report.ts";

const rounds = Number(process.argv[2] ?? 3);
const kills = Number(process.argv[3] ?? 50);
const SECONDS = 8;
const AWAY_MS = 30_000;

await installPackages(["postgresql", "haproxy", "nginx-light", "caddy"]);
const postgres = await testPostgres();

type Server = Backend & { caughtUp(): Promise<void> };

/** A server as a backend of the chat bench, and what waits until a standby beside it has everything. */
async function backend(logUrl: string | null, withStandby = false): Promise<Server> {
  const group = new Group(logUrl, { LOG_LEVEL: "error" });
  const leader = await group.startFirst();
  await group.leader();
  const standby = withStandby ? await group.start("second") : null;
  const caughtUp = async () => {
    const head = (await readyz(leader.url))?.position ?? 0;
    while (standby !== null && ((await readyz(standby.url))?.position ?? 0) < head) await Bun.sleep(50);
  };
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
  const stoa = stoaAt({ url: leader.url, pid: leader.process.pid, call, token }, () => group.close());
  return { ...stoa, caughtUp };
}

type Sends = Ceiling & { postgresMicros: number; clientMicros: number };

/** The CPU time that all processes on these cores took for a send. */
async function sends(of: Server, round: number): Promise<Sends> {
  const own = process.cpuUsage();
  const postgresBefore = cpuMicrosOfAll(postgres.pid());
  const measured = await sendCeiling(of, SECONDS, round);
  const count = measured.perSecond * SECONDS;
  const { user, system } = process.cpuUsage(own);
  await of.caughtUp();
  return {
    ...measured,
    // Both for a little longer than what is counted.
    postgresMicros: (cpuMicrosOfAll(postgres.pid()) - postgresBefore) / count,
    clientMicros: (user + system) / count,
  };
}

type Part = { lines: Measured[]; raw: Record<string, unknown> };

async function measureSends(): Promise<Part> {
  const alone = await backend(null);
  // In production a standby has a machine of its own; its cost on this one, where it shares the cores, is listed separately.
  const together = await backend(await postgres.database());
  const followed = await backend(await postgres.database(), true);
  const measured = { alone: [] as Sends[], together: [] as Sends[], followed: [] as Sends[] };
  for (let round = 0; round < rounds; round++) {
    measured.alone.push(await sends(alone, round));
    measured.together.push(await sends(together, round));
    measured.followed.push(await sends(followed, round));
  }
  const middle = (list: Sends[], what: Exclude<keyof Sends, "besidesMicros">) => median(list.map((one) => one[what]));
  const rate = (list: Sends[]) => middle(list, "perSecond");
  const published = {
    alone: await publishedScenario(alone, SECONDS),
    together: await publishedScenario(together, SECONDS),
    followed: await publishedScenario(followed, SECONDS),
  };
  for (const one of [alone, together, followed]) await one.stop();
  const [base, logged] = [rate(measured.alone), rate(measured.together)];
  const lines = [
    { what: "one server", value: base, unit: "sends/s" },
    { what: "with a commit log", value: logged, unit: "sends/s" },
    { what: "ratio", value: logged / base, unit: "", goal: { atLeast: 0.8 } },
    { what: "ratio with a standby on the same machine", value: rate(measured.followed) / base, unit: "" },
    { what: "CPU of one server for a send", value: middle(measured.alone, "cpuMicros"), unit: "µs" },
    { what: "CPU of a server with a log", value: middle(measured.together, "cpuMicros"), unit: "µs" },
    { what: "CPU of Postgres", value: middle(measured.together, "postgresMicros"), unit: "µs" },
    { what: "CPU of the clients", value: middle(measured.together, "clientMicros"), unit: "µs" },
    { what: "ack p99 of one server", value: published.alone.ack.p99, unit: "ms" },
    { what: "ack p50 with a log", value: published.together.ack.p50, unit: "ms" },
    { what: "ack p99 with a log", value: published.together.ack.p99, unit: "ms", goal: { atMost: 10 } },
    { what: "ack p99 with a standby on the same machine", value: published.followed.ack.p99, unit: "ms" },
  ];
  return { lines, raw: { measured, published } };
}

/** Leaders killed, both ways of an upgrade, a leader that sleeps and a Postgres that is away, all under one load. */
async function measureFaults(): Promise<Part> {
  openPage();
  giveAddress();
  const group = new Group(await postgres.database(), WITH_NODES);
  try {
    return await faultsOf(group);
  } finally {
    await group.close();
  }
}

async function faultsOf(group: Group): Promise<Part> {
  await within("the first server", group.startFirst());
  await within("the second server", group.start("second"));
  const call = await within("a call on a node", NodeCall.start(group));
  const load = await within("clients", Load.start(group));
  const readyAfterMs: number[] = [];
  const seats = { resumed: 0, new: 0, replaced: 0 };
  for (let kill = 0; kill < kills; kill++) {
    await within("sends before a kill", load.more(50));
    const leader = await within("a leader to kill", group.leader());
    const at = performance.now();
    await group.kill(leader);
    await within("the next leader", group.leader());
    readyAfterMs.push(performance.now() - at);
    const back = await within("seats after a kill", Promise.all([call.ada.resume(), call.ben.resume()]));
    for (const { mode } of back) seats[mode]++;
    // A video that stands still for good would show as no gap at all.
    await within("media after a kill", call.ben.receives());
    await within("sends after a kill", load.more(20));
    await within("a standby again", group.start(leader.name));
    if (kill % 10 === 9) console.error(`${kill + 1} leaders killed, ${load.count} messages acknowledged …`);
  }
  const { longestGapMs } = call.ben;
  // Clients are only told to retry, and not for long.
  const other = checkoutOf("0.1.99");
  load.longestRefusedMs = 0;
  for (const root of [other.root, undefined]) await within("an upgrade", upgrade(group, load, root));
  const { longestRefusedMs } = load;
  other.remove();
  const sleeper = await group.leader();
  sleeper.process.kill("SIGSTOP");
  await Bun.sleep(AWAY_MS);
  sleeper.process.kill("SIGCONT");
  const isStandby = async () => (await readyz(sleeper.url))?.role === "standby";
  await within("the end of a leader that slept", until(isStandby));
  await within("sends after a leader slept", load.more(50));
  const refused = load.refused.length + load.failed.length;
  // The killed servers had other addresses, and count as members until they have been silent for a while.
  await Bun.sleep(AWAY_MS);
  await postgres.kill();
  await Bun.sleep(AWAY_MS / 2);
  const readsBefore = load.reads.length;
  await Bun.sleep(AWAY_MS / 2);
  const readsWhileAway = load.reads.length - readsBefore;
  await within("Postgres", postgres.start());
  await within("sends after Postgres was away", load.more(50));
  const acknowledged = load.count;
  const verdict = await within("the history", load.finish(), 3 * PATIENCE_MS);
  const none = { atMost: 0 };
  const p95 = percentile(readyAfterMs, 0.95);
  const lines = [
    { what: "leaders killed: ready again p95", value: p95, unit: "ms", goal: { atMost: 2000 } },
    { what: "longest gap of what a node carried meanwhile", value: longestGapMs, unit: "ms", goal: { atMost: 1000 } },
    { what: "seats in the call that were lost", value: seats.new + seats.replaced, unit: "", goal: none },
    { what: "longest without an answer in an upgrade", value: longestRefusedMs, unit: "ms", goal: { atMost: 3000 } },
    { what: "acknowledged meanwhile", value: acknowledged, unit: "messages" },
    { what: "refused to a client", value: refused, unit: "", goal: none },
    { what: "reads in the last of 30 s without Postgres", value: readsWhileAway, unit: "", goal: { atLeast: 1 } },
    ...Object.entries(verdict).map(([what, value]) => ({ what, value, unit: "", goal: none })),
  ];
  return { lines, raw: { readyAfterMs } };
}

const parts: Part[] = [];
try {
  if (rounds > 0) parts.push(await measureSends());
  if (kills > 0) parts.push(await measureFaults());
} finally {
  await postgres.close();
}
report(
  "standby",
  parts.flatMap(({ lines }) => lines),
  Object.assign({}, ...parts.map(({ raw }) => raw)),
);
process.exit();
