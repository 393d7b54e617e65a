import { SQL } from "bun";
import type { CommitLog } from "../../src/kernel/db/commit-log.ts";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/time/timers.ts";
import { type TestPostgres, testPostgres } from "./postgres.ts";

const log = createLog({ level: "warn", format: "pretty" });
let shared: Promise<{ admin: SQL; server: TestPostgres }> | null = null;
let made = 0;

/** One Postgres for all servers of this process; it never crashes, so nothing needs to reach the disk. */
async function start(): Promise<{ admin: SQL; server: TestPostgres }> {
  const server = await testPostgres({ fsync: "off", max_connections: "400" });
  return { server, admin: new SQL(await server.database(), { max: 1 }) };
}

/** A commit log in its own database, created with the first commit. */
export function ownPostgresLog(): Pick<CommitLog, "append" | "read" | "close"> {
  let opened: Promise<CommitLog> | null = null;
  const open = async () => {
    shared ??= start();
    const { admin, server } = await shared;
    const name = `log_${made++}`;
    await admin.unsafe(`CREATE DATABASE ${name}`);
    const one = postgresLog(server.urlOf(name), { log, timers: systemTimers });
    await one.info("of a test");
    return one;
  };
  const own = () => {
    opened ??= open();
    return opened;
  };
  return {
    append: async (position, record) => (await own()).append(position, record),
    read: async (after, limit) => (await own()).read(after, limit),
    close: async () => (await opened)?.close(),
  };
}
