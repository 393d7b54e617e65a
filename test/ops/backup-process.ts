import { Database } from "bun:sqlite";
import { join } from "node:path";
import { makeBackupInThread } from "../../src/ops/backup/backup-thread.ts";
import { start } from "../../src/server.ts";
import { createTestAccounts } from "../harness/accounts.ts";
import { testConfig } from "../harness/test-config.ts";

/** A server whose event loop is measured from outside: `bun backup-process.ts DATA_DIR`, then one command per line. */
const [, , dataDir = ""] = process.argv;
const server = await start(
  testConfig({ DATA_DIR: dataDir, CHAT_SEND_RATE_LIMIT: 1_000_000, CHAT_FRAME_RATE_LIMIT: 1_000_000 }),
);
const { key } = await createTestAccounts(server.runtime, server.services).project();
server.runtime.db.$client.run(
  `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
   INSERT INTO idempotency_keys SELECT 'filler ' || i, '', 200, hex(randomblob(2000)), 1e15 FROM n`,
);
console.log(JSON.stringify({ url: server.url, key }));

for await (const line of console) {
  const [order, file = ""] = line.split(" ");
  if (order === "thread") {
    const options = { dataDir, file, now: Date.now(), version: "test" };
    await makeBackupInThread(options, new AbortController().signal);
  } else {
    // A copy on the main thread is what the product must not do.
    const client = new Database(join(dataDir, "stoa.db"));
    client.run("VACUUM INTO ?", [file]);
    client.close();
  }
  console.log("done");
}
