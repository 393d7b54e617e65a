/** descriptors: idle connections beyond the limit beside a call and chat; `bin/bench descriptors [limit] [connections] [seconds]` */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runChatLoad } from "../../src/ops/load-test/chat-load.ts";
import { runMediaLoad } from "../../src/ops/load-test/media-load.ts";
import { PROGRAM } from "../cli/stoa.ts";
import { prepareData, served } from "../ops/served.ts";
import { report } from "./harness/report.ts";

const [limit = 1_024, connections = 5_000, seconds = 300] = process.argv.slice(2).map(Number);
const work = mkdtempSync(join(tmpdir(), "stoa-descriptors-"));
const dataDir = join(work, "data");
await prepareData(dataDir);
const args = ["--public-ip", "127.0.0.1", "--chat-connection-rate-limit", "1000"];
const server = await served(dataDir, args, ["prlimit", `--nofile=${limit}`, ...PROGRAM]);
const load = { url: server.url, apiKey: server.key, durationSeconds: seconds };
const honest = Promise.all([
  runMediaLoad({ ...load, rooms: 1, publishers: 2, subscribers: 4 }, () => {}),
  runChatLoad({ ...load, conversations: 2, senders: 1, readers: 24, rate: 2 }, () => {}),
]);
await Bun.sleep(3_000);
// In a process of their own, so that the honest clients' times are not theirs.
const script = join(import.meta.dir, "../ops/idle-clients.ts");
const code = `import { IdleClients } from ${JSON.stringify(script)}; new IdleClients(${new URL(server.url).port}, ${connections});`;
const idle = Bun.spawn([process.execPath, "-e", code]);
const [call, chat] = await honest;
idle.kill();
await idle.exited;
// New connections, this one too, are refused until the server has noticed that the idle ones are closed.
let metrics: string | undefined;
while (metrics === undefined && server.child.exitCode === null) {
  await Bun.sleep(100);
  const response = await fetch(`${server.url}/metrics`).catch(() => null);
  if (response?.ok) metrics = await response.text();
}
const metric = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(metrics ?? "")?.[1] ?? Number.NaN);
const count = (what: string, value: number, atMost?: number) =>
  ({ what, value, unit: "", ...(atMost !== undefined && { goal: { atMost } }) }) as const;
report(
  "descriptors",
  [
    count("servers that ended", server.child.exitCode === null ? 0 : 1, 0),
    count("connections refused", metric("stoa_connections_refused_total")),
    count("silent connections closed", metric("stoa_connections_silent_total")),
    count("call: participants missing", call.wanted - call.joined, 0),
    { what: "call: packets lost", value: call.lossPercent ?? 100, unit: "%", goal: { atMost: 0.5 } },
    { what: "call: delay p99", value: call.delayMs.p99 ?? Number.NaN, unit: "ms" },
    count("chat: members missing", chat.wanted - chat.joined, 0),
    count("chat: messages lost", chat.lost, 0),
    count("chat: messages not acknowledged", chat.sends - chat.acks, 0),
    { what: "chat: delivery p99", value: chat.deliveryMs.p99 ?? Number.NaN, unit: "ms" },
  ],
  { limit, connections, seconds },
);
await server.stop("SIGKILL");
rmSync(work, { recursive: true, force: true });
process.exit();
