import { start } from "../../../../src/server.ts";
import { createTestAccounts } from "../../../harness/accounts.ts";
import { testConfig } from "../../../harness/test-config.ts";

/** A server in a process of its own, to be killed or measured from outside: `bun attachment-process.ts DATA_DIR`. */
const [, , dataDir = "", maxBytes = "26214400"] = process.argv;
const server = await start(
  testConfig({ DATA_DIR: dataDir, STORAGE_MAX_ATTACHMENT_BYTES: Number(maxBytes), CHAT_SEND_RATE_LIMIT: 1_000_000 }),
);
const { key, projectId } = await createTestAccounts(server.runtime, server.services).project();
process.stdout.write(`${JSON.stringify({ url: server.url, key, projectId })}\n`);
