import { start } from "../../../src/server.ts";
import { createTestAccounts } from "../../harness/accounts.ts";
import { testConfig } from "../../harness/test-config.ts";

/** A server in a process of its own, to be killed or measured from outside: `bun chat-process.ts DATA_DIR [--new-project]`. */
const [, , dataDir = "", newProject] = process.argv;
const server = await start(
  testConfig({
    DATA_DIR: dataDir,
    LOG_LEVEL: "error",
    CHAT_SEND_RATE_LIMIT: 1_000_000,
    CHAT_FRAME_RATE_LIMIT: 1_000_000,
    CHAT_SUBSCRIBE_RATE_LIMIT: 1_000_000,
    CHAT_CONNECTION_RATE_LIMIT: 1_000_000,
    CHAT_REACTION_RATE_LIMIT: 1_000_000,
    // On a busy machine a thousand clients may need longer to come back than people are waited for.
    CHAT_PRESENCE_TTL_SECONDS: 86_400,
  }),
);
const key = newProject ? (await createTestAccounts(server.runtime, server.services).project()).key : "";
process.stdout.write(`${JSON.stringify({ url: server.url, key, mediaPorts: server.media.ports })}\n`);

/** Asked on standard input: what the process has used, for measurements. */
for await (const _ of console) {
  const { user, system } = process.cpuUsage();
  Bun.gc(true);
  process.stdout.write(`${JSON.stringify({ cpuMicros: user + system, rss: process.memoryUsage.rss() })}\n`);
}
