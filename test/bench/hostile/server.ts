/** The server of the hostile bench: its own process in its own network. Prints where it is and a key, then serves. */
import { start } from "../../../src/server.ts";
import { testConfig } from "../../harness/test-config.ts";

const [host = "127.0.0.1", dataDir = ""] = process.argv.slice(2);
// Honest users come from many addresses; here they share one, whose budgets therefore are those of many.
const many = { CHAT_CONNECTION_RATE_LIMIT: 100_000, SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 100_000 };
const config = testConfig({
  ...{ HOST: host, PORT: 0, DATA_DIR: dataDir, LOG_LEVEL: "silent", PUBLIC_IP: [host] },
  ...{ RATE_LIMIT_RTC_TOKENS: 100_000, CHAT_SEND_RATE_LIMIT: 600, ...many },
});
const { runtime, services, url, media } = await start(config);
const key = await runtime.write((unit) => {
  const owner = services.users.create(unit, {
    ...{ email: "owner@example.com", passwordHash: null, emailVerified: true, isOperator: true },
  });
  const { id } = services.projects.create(unit, owner.id, { name: "bench" });
  return services.apiKeys.create(unit, id, { name: "bench", environment: "DEVELOPMENT" }).key;
});
console.log(JSON.stringify({ url, key, mediaPort: media.ports[0] }));
