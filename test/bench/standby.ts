/** standby: sends per second with a commit log in Postgres and without, and takeovers under load; `bin/bench standby [rounds] [kills]` */
import { ensurePrograms } from "../../bin/test-programs.ts";
import { testPostgres } from "../harness/postgres.ts";
import { openPage } from "../sdk/page.ts";
import { Group, readyz } from "../standby/group.ts";
import { giveAddress, Load } from "../standby/load.ts";
import { NodeCall, WITH_NODES } from "../standby/node-call.ts";
import type { Backend } from "./chat/backend.ts";
import { publishedScenario, sendCeiling } from "./chat/scenarios.ts";
import { stoa, stoaAt } from "./chat/stoa.ts";
import { median, percentile, report } from "./harness/report.ts";

const rounds = Number(process.argv[2] ?? 3);
const kills = Number(process.argv[3] ?? 50);
const SECONDS = 8;
const AWAY_MS = 30_000;

await ensurePrograms("standby");
const postgres = await testPostgres();

/** A leader as a backend of the chat bench, and what waits until a standby beside it has everything. */
async function logged(withStandby: boolean): Promise<Backend & { caughtUp(): Promise<void> }> {
  const group = new Group(await postgres.database());
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
  const backend = stoaAt({ url: leader.url, pid: leader.process.pid, call, token }, () => group.close());
  return { ...backend, caughtUp };
}

const alone = await stoa();
// A standby has a machine of its own; what it costs on this one, where it shares the cores, is told beside it.
const together = await logged(false);
const followed = await logged(true);
const perSecond = { alone: [] as number[], together: [] as number[], followed: [] as number[] };
for (let round = 0; round < rounds; round++) {
  perSecond.alone.push((await sendCeiling(alone, SECONDS, round)).perSecond);
  perSecond.together.push((await sendCeiling(together, SECONDS, round)).perSecond);
  perSecond.followed.push((await sendCeiling(followed, SECONDS, round)).perSecond);
  await followed.caughtUp();
}
const published = {
  alone: await publishedScenario(alone, SECONDS),
  together: await publishedScenario(together, SECONDS),
  followed: await publishedScenario(followed, SECONDS),
};
for (const backend of [alone, together, followed]) await backend.stop();

openPage();
giveAddress();
const group = new Group(await postgres.database(), WITH_NODES);
await group.startFirst();
await group.start("second");
const call = await NodeCall.start(group);
const load = await Load.start(group);
const readyAfterMs: number[] = [];
const seats = { resumed: 0, new: 0, replaced: 0 };
for (let kill = 0; kill < kills; kill++) {
  await load.more(50);
  const leader = await group.leader();
  const at = performance.now();
  await group.kill(leader);
  await group.leader();
  readyAfterMs.push(performance.now() - at);
  for (const { mode } of await Promise.all([call.ada.resume(), call.ben.resume()])) seats[mode]++;
  await load.more(20);
  await group.start(leader.name);
}
const { longestGapMs } = call.ben;
const refused = load.refused.length;
const readsBefore = load.reads.length;
await postgres.kill();
await Bun.sleep(AWAY_MS);
const readsWhileAway = load.reads.length - readsBefore;
await postgres.start();
await load.more(50);
const acknowledged = load.count;
const verdict = await load.finish();
await group.close();
await postgres.close();

const none = { atMost: 0 };
report(
  "standby",
  [
    { what: "one server", value: median(perSecond.alone), unit: "sends/s" },
    { what: "with a commit log", value: median(perSecond.together), unit: "sends/s" },
    { what: "ratio", value: median(perSecond.together) / median(perSecond.alone), unit: "", goal: { atLeast: 0.8 } },
    {
      what: "ratio with a standby on the same machine",
      value: median(perSecond.followed) / median(perSecond.alone),
      unit: "",
    },
    { what: "ack p99 of one server", value: published.alone.ack.p99, unit: "ms" },
    { what: "ack p50 with a log", value: published.together.ack.p50, unit: "ms" },
    { what: "ack p99 with a log", value: published.together.ack.p99, unit: "ms", goal: { atMost: 10 } },
    { what: "ack p99 with a standby on the same machine", value: published.followed.ack.p99, unit: "ms" },
    {
      what: `leaders killed: ready again p95`,
      value: percentile(readyAfterMs, 0.95),
      unit: "ms",
      goal: { atMost: 2000 },
    },
    { what: "longest gap of what a node carried meanwhile", value: longestGapMs, unit: "ms", goal: { atMost: 1000 } },
    { what: "seats in the call that were lost", value: seats.new + seats.replaced, unit: "", goal: none },
    { what: "acknowledged meanwhile", value: acknowledged, unit: "messages" },
    { what: "refused to a client", value: refused, unit: "", goal: none },
    { what: "reads while Postgres was away 30 s", value: readsWhileAway, unit: "", goal: { atLeast: 1 } },
    ...Object.entries(verdict).map(([what, value]) => ({ what, value, unit: "", goal: none })),
  ],
  { perSecond, published, readyAfterMs },
);
process.exit();
