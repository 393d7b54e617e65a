import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { PROGRAM, type RunningStoa, startStoa } from "../../cli/stoa.ts";
import { startReceiver } from "../../features/webhooks/receiver.ts";
import { createApi } from "../../harness/api.ts";
import { startChurn } from "./call-churn.ts";
import { type CallEvent, faultsOf } from "./call-history.ts";

/** Joins before the server is killed: now early, now late. */
const JOINS = { least: 5, more: 40 };

const ENVIRONMENT = {
  PORT: "0",
  MEDIA_UDP_PORT: "0",
  MEDIA_WORKERS: "1",
  PUBLIC_IP: "127.0.0.1",
  WEBHOOK_BACKOFF_BASE_MS: "300",
  RATE_LIMIT_RTC_TOKENS: "1000000",
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: "1000000",
  LOG_LEVEL: "error",
};

export type KillOutcome = { kills: number; calls: number; events: number; requests: number; faults: string[] };

/** Repeats `kill -9` while participants join and leave; a stock receiver verifies the events of their calls. */
export async function killDuringCalls(rounds: number, onRound = (_line: string) => {}): Promise<KillOutcome> {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-call-kills-"));
  const receiver = startReceiver();
  const start = () => startStoa([...PROGRAM, "dev", "--json"], { env: { ...ENVIRONMENT, DATA_DIR: dataDir } });
  let server: RunningStoa = await start();
  try {
    const dev = JSON.parse(server.out) as { projectId: string; apiKey: string };
    const hook = await createApi(server.url, dev.apiKey).call("POST", "/v1/webhooks", {
      url: receiver.url,
      events: ["call.started", "call.participant_joined", "call.participant_left", "call.ended"],
    });
    const verifier = new Webhook(String(hook.body.secret));
    const entered = new Set<string>();
    for (let round = 0; round < rounds; round++) {
      const churn = await startChurn(createApi(server.url, dev.apiKey), round);
      const joins = JOINS.least + Math.floor(Math.random() * JOINS.more);
      await churn.more(joins);
      server.child.kill("SIGKILL");
      await server.child.exited;
      await churn.stop();
      for (const roomId of churn.entered) entered.add(roomId);
      server = await start();
      onRound(`kill ${round + 1} after ${joins} joins: ${receiver.received.length} requests so far`);
    }
    const api = createApi(server.url, dev.apiKey);
    const faults: string[] = [];
    let calls = await allCalls(api);
    // Calls that the kill left open are ended shortly after the start.
    for (; calls.some(({ status }) => status !== "ENDED"); calls = await allCalls(api)) await Bun.sleep(100);
    const ends = () => new Set(receiver.received.filter(isEnd).map(({ event }) => event.data.callId));
    while (calls.some(({ id }) => !ends().has(id))) await receiver.arrived(receiver.received.length + 1);
    server.child.kill("SIGTERM");
    if ((await server.child.exited) !== 0) faults.push("it did not stop in order");

    const first = new Map<string, CallEvent>();
    for (const { body, headers, event } of receiver.received) {
      verifier.verify(body, Object.fromEntries(headers));
      if (!first.has(event.id)) first.set(event.id, event);
    }
    const events = [...first.values()];
    const known = new Set(calls.map(({ id }) => id));
    for (const { data } of events) if (!known.has(String(data.callId))) faults.push(`${data.callId} has no record`);
    for (const { roomName, participantCount } of calls) {
      if (roomName.endsWith("shut") || participantCount === 0) faults.push(`a call in ${roomName}, which had nobody`);
    }
    for (const roomId of entered)
      if (!calls.some((call) => call.roomId === roomId)) faults.push(`no call in ${roomId}, which had people`);
    return {
      kills: rounds,
      calls: calls.length,
      events: events.length,
      requests: receiver.received.length,
      faults: [...faults, ...faultsOf(events)],
    };
  } finally {
    server.child.kill("SIGKILL");
    receiver.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

const isEnd = ({ event }: { event: { type: string } }) => event.type === "call.ended";

type Call = { id: string; roomId: string; roomName: string; status: string; participantCount: number };

async function allCalls(api: ReturnType<typeof createApi>): Promise<Call[]> {
  const calls: Call[] = [];
  for (let path: string | undefined = "/v1/calls"; path !== undefined; ) {
    const { body, headers } = await api.call("GET", path);
    calls.push(...(body as unknown as Call[]));
    path = /<(.+)>; rel="next"/.exec(headers.get("link") ?? "")?.[1];
  }
  return calls;
}
