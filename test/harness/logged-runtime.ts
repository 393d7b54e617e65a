import { Database } from "bun:sqlite";
import { copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { becomeBase, Replica } from "../../src/cluster/replica.ts";
import { assetFolder } from "../../src/kernel/assets.ts";
import { migrate, readMigrations } from "../../src/kernel/db/migrate.ts";
import { closeDatabase, type Db, openDatabase } from "../../src/kernel/db/open.ts";
import type { SplitClient } from "../../src/kernel/db/split-client.ts";
import type { Leading } from "../../src/runtime.ts";
import { memoryLog, SharedMemory } from "./memory-log.ts";

/** `STOA_TEST_LOG=memory`: every server of the tests writes to a commit log, and at its end a replica made of that is compared. */
export const WITH_COMMIT_LOG = process.env.STOA_TEST_LOG === "memory";

export type LoggedData = {
  leading: Leading;
  /** Lets a test change the file past the writer; nothing is compared then. */
  watchTampering(db: Db): void;
  checkReplica(): Promise<void>;
};

/** A database that leads a log in memory, begun before anything is opened on it. */
export function loggedData(): LoggedData {
  // Not in the data directory: tests count what is there.
  const folder = mkdtempSync(join(tmpdir(), "stoa-logged-"));
  const path = join(folder, "stoa.db");
  const replicaPath = join(folder, "replica.db");
  copyFileSync(migratedOnce(), path);
  const shared = new SharedMemory();
  becomeBase(path, shared.id);
  copyFileSync(path, replicaPath);
  const log = memoryLog(shared);
  let tampered = false;
  return {
    leading: {
      path,
      log,
      fence: { isStale: () => false, fresh: async () => true },
      onLost: (reason) => console.error("lost:", reason),
    },
    watchTampering(db) {
      const client = db.$client as unknown as SplitClient;
      const run = client.run.bind(client);
      client.run = (sql, values = []) => {
        if (client.inUnits) return run(sql, values);
        tampered = true;
        return client.recording.prepare(sql).run(...values);
      };
    },
    async checkReplica() {
      if (tampered) return rmSync(folder, { recursive: true, force: true });
      const replica = new Replica(replicaPath);
      for (;;) {
        const entries = await log.read(replica.position, 500);
        if (entries.length === 0) break;
        replica.apply(entries);
      }
      replica.close();
      const differences = differencesOf(path, replicaPath);
      if (differences.length > 0) throw new Error(`the replica differs: ${differences.join("; ")}`);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** An empty database of today's schema; to make one takes longer than most tests. */
function migratedOnce(): string {
  const path = join(tmpdir(), `stoa-schema-${process.pid}.db`);
  if (existsSync(path)) return path;
  const db = openDatabase(path, { durability: "OFF" });
  migrate(db, readMigrations(assetFolder("migrations")), 0);
  closeDatabase(db);
  process.once("exit", () => rmSync(path, { force: true }));
  return path;
}

/** By table: what one of the two files has and the other has not. */
export function differencesOf(one: string, two: string): string[] {
  const client = new Database(one);
  try {
    client.run("ATTACH ? AS other", [two]);
    const schema = (name: string) =>
      client
        .query<{ name: string; sql: string }, []>(
          `SELECT name, sql FROM ${name}.sqlite_schema WHERE sql IS NOT NULL ORDER BY name`,
        )
        .all();
    const ours = schema("main");
    if (JSON.stringify(ours) !== JSON.stringify(schema("other"))) return ["the schemas are not the same"];
    const tables = ours.filter(({ sql }) => sql.startsWith("CREATE TABLE")).map(({ name }) => `"${name}"`);
    return tables.flatMap((table) => {
      const count = (a: string, b: string) =>
        client
          .query<{ n: number }, []>(
            `SELECT count(*) AS n FROM (SELECT * FROM ${a}.${table} EXCEPT SELECT * FROM ${b}.${table})`,
          )
          .get()?.n ?? 0;
      const rows = (schema: string) =>
        client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${schema}.${table}`).get()?.n;
      const [missing, surplus] = [count("main", "other"), count("other", "main")];
      const same = missing === 0 && surplus === 0 && rows("main") === rows("other");
      return same ? [] : [`${table}: ${missing} rows only here, ${surplus} only there`];
    });
  } finally {
    client.close();
  }
}
