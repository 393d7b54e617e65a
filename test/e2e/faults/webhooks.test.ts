import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROGRAM, type RunningStoa, startStoa } from "../../cli/stoa.ts";
import { failing, ok, type Received, startReceiver } from "../../features/webhooks/receiver.ts";

/** More rounds: `STOA_KILL_ROUNDS=30 bin/test faults/webhooks`. */
const ROUNDS = Number(process.env.STOA_KILL_ROUNDS ?? 6);
const MESSAGES = 20;

const dataDir = mkdtempSync(join(tmpdir(), "stoa-webhooks-"));
const receiver = startReceiver();
afterAll(() => {
  receiver.close();
  rmSync(dataDir, { recursive: true, force: true });
});

type Dev = { email: string; password: string; projectId: string; apiKey: string };

const startDev = (): Promise<RunningStoa> =>
  startStoa([...PROGRAM, "dev", "--json"], {
    env: { DATA_DIR: dataDir, PORT: "0", MEDIA_UDP_PORT: "0", WEBHOOK_BACKOFF_BASE_MS: "300", LOG_LEVEL: "error" },
  });

async function post(url: string, path: string, credential: string, body: object): Promise<Record<string, unknown>> {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${credential}` },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as Record<string, unknown>;
  if (!response.ok) throw new Error(JSON.stringify(answer));
  return answer;
}

/** What the endpoint does until the server is killed, and when that is. */
const MOMENTS = {
  "between a change and its delivery": { reply: ok, arrivedBefore: 0 },
  "during a delivery": { reply: () => new Promise<Response>(() => {}), arrivedBefore: 1 },
  "during back-off": { reply: failing, arrivedBefore: 3 },
} as const;

const messageOf = ({ event }: Received) => (event.data.message as { id: string }).id;

test(`[6] kill -9, ${ROUNDS} rounds: every event arrives, with one id and the same bytes`, async () => {
  let server = await startDev();
  const dev = JSON.parse(server.out) as Dev;
  const session = await post(server.url, "/v1/auth/login", "none", { email: dev.email, password: dev.password });
  await post(server.url, `/v1/projects/${dev.projectId}/webhooks`, String(session.accessToken), {
    url: receiver.url,
    events: ["message.created"],
  });
  await post(server.url, "/v1/chat/conversations", dev.apiKey, { name: "killed" });

  const acknowledged: string[] = [];
  const moments = Object.values(MOMENTS);
  for (let round = 0; round < ROUNDS; round++) {
    const moment = moments[round % moments.length];
    if (!moment) throw new Error("no moment");
    receiver.reply = moment.reply;
    const before = receiver.received.length;
    const sends = Array.from({ length: MESSAGES }, async (_, n) => {
      const text = `round ${round}, message ${n}`;
      const message = await post(server.url, "/v1/chat/conversations/killed/messages", dev.apiKey, { text });
      acknowledged.push(String(message.id));
    });
    await Promise.all([...sends, receiver.arrived(before + moment.arrivedBefore)]);
    server.child.kill("SIGKILL");
    await server.child.exited;

    receiver.reply = ok;
    server = await startDev();
    const missing = () => new Set(acknowledged).difference(new Set(receiver.received.map(messageOf)));
    while (missing().size > 0) await receiver.arrived(receiver.received.length + 1);
  }
  server.child.kill("SIGTERM");
  expect(await server.child.exited).toBe(0);

  const seen = Map.groupBy(receiver.received, messageOf);
  expect(new Set(seen.keys())).toEqual(new Set(acknowledged));
  for (const same of seen.values()) {
    expect(new Set(same.map(({ headers }) => headers.get("svc-event-id"))).size).toBe(1);
    expect(new Set(same.map(({ body }) => body)).size).toBe(1);
  }
  console.log(
    `      ${acknowledged.length} events over ${ROUNDS} kills, 0 lost, ${receiver.received.length} requests in all`,
  );
}, 300_000);
