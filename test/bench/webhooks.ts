/** webhooks: chat acknowledgements while 50 endpoints hang, against a server without any; and events delivered per second */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FROM_SOURCE, startStoa } from "../cli/stoa.ts";
import { ChatClient } from "../features/chat/client.ts";
import { startReceiver } from "../features/webhooks/receiver.ts";
import { percentile, report } from "./harness/report.ts";

const MESSAGES = 3000;
const WARM_UP = 600;
const EVERY_MS = 10;
const HANGING = 50;
const BURST = 2000;

type Bench = Awaited<ReturnType<typeof startBench>>;

/** A server with a conversation, a participant in it, and a session that may register endpoints. */
async function startBench() {
  const dataDir = mkdtempSync(join(tmpdir(), "stoa-bench-webhooks-"));
  const server = await startStoa([...FROM_SOURCE, "dev", "--json"], {
    env: {
      DATA_DIR: dataDir,
      PORT: "0",
      MEDIA_UDP_PORT: "0",
      CHAT_SEND_RATE_LIMIT: "1000000",
      CHAT_FRAME_RATE_LIMIT: "1000000",
      LOG_LEVEL: "error",
    },
  });
  const dev = JSON.parse(server.out) as { email: string; password: string; projectId: string; apiKey: string };

  async function call(
    method: string,
    path: string,
    credential: string,
    body?: object,
  ): Promise<Record<string, string>> {
    const response = await fetch(server.url + path, {
      method,
      headers: { "content-type": "application/json", authorization: `Bearer ${credential}` },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return text === "" ? {} : JSON.parse(text);
  }

  const session = await call("POST", "/v1/auth/login", "none", { email: dev.email, password: dev.password });
  await call("POST", "/v1/chat/conversations", dev.apiKey, { name: "bench", members: [{ userId: "ann" }] });
  const { token = "" } = await call("POST", "/v1/chat/tokens", dev.apiKey, { userId: "ann" });
  const client = await ChatClient.open(server.url, token);
  await client.ask("room.join", { room: "bench" });
  const webhooks = `/v1/projects/${dev.projectId}/webhooks`;
  return {
    register: (url: string) => call("POST", webhooks, session.accessToken ?? "", { url }),
    post: (text: string) => call("POST", "/v1/chat/conversations/bench/messages", dev.apiKey, { text }),
    async ackMs(): Promise<number> {
      const sentAt = performance.now();
      const { type } = await client.ask("message.send", { room: "bench", text: "hello" });
      if (type !== "ack") throw new Error("not acknowledged");
      client.frames.splice(0, client.frames.length - 200);
      return performance.now() - sentAt;
    },
    async stop(): Promise<void> {
      server.child.kill("SIGKILL");
      await server.child.exited;
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** One message to each in turn, so that both meet the same moments of the machine. */
async function compare(benches: Bench[], messages: number): Promise<number[][]> {
  const taken = benches.map((): number[] => []);
  for (let n = 0; n < messages; n++) {
    for (const [index, bench] of benches.entries()) taken[index]?.push(await bench.ackMs());
    await Bun.sleep(EVERY_MS);
  }
  return taken;
}

const quiet = await startBench();
const hung = await startBench();
await compare([quiet, hung], WARM_UP);

const hanging = startReceiver(() => new Promise<Response>(() => {}));
for (let n = 0; n < HANGING; n++) await hung.register(hanging.url);
const [without = [], during = []] = await compare([quiet, hung], MESSAGES);
await hung.stop();

const healthy = startReceiver();
await quiet.register(healthy.url);
const burstAt = performance.now();
await Promise.all(Array.from({ length: BURST }, (_, n) => quiet.post(`burst ${n}`)));
await healthy.arrived(BURST);
const burstSeconds = (performance.now() - burstAt) / 1000;
await quiet.stop();

const ratio = percentile(during, 0.99) / percentile(without, 0.99);
report(
  "webhooks",
  [
    { what: "ack p50, no endpoint", value: percentile(without, 0.5), unit: "ms" },
    { what: `ack p50, ${HANGING} hanging endpoints`, value: percentile(during, 0.5), unit: "ms" },
    { what: "ack p99, no endpoint", value: percentile(without, 0.99), unit: "ms" },
    { what: `ack p99, ${HANGING} hanging endpoints`, value: percentile(during, 0.99), unit: "ms" },
    { what: "p99 with over p99 without", value: ratio, unit: "×", goal: { atMost: 1.2 } },
    { what: "messages sent and delivered to one endpoint", value: BURST / burstSeconds, unit: "/s" },
  ],
  { requestsHanging: hanging.received.length },
);
process.exit();
