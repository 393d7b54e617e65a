import { Database } from "bun:sqlite";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Cluster } from "../../src/cluster/cluster.ts";
import { MemberAuthentication } from "../../src/cluster/member-authentication.ts";
import { makeLogBase, Replica } from "../../src/cluster/replica.ts";
import { createKeyring } from "../../src/kernel/crypto/secrets.ts";
import type { SplitClient } from "../../src/kernel/db/split-client.ts";
import type { Writer } from "../../src/kernel/db/writer.ts";
import type { Leading, Runtime } from "../../src/kernel/runtime.ts";
import { emptyDatabaseFile } from "./empty-database.ts";
import { memoryLog } from "./memory-log.ts";
import { ownPostgresLog } from "./own-postgres-log.ts";

const { STOA_TEST_LOG: kind } = process.env;

/**
 * `STOA_TEST_LOG=memory` or `postgres`: every server of the tests writes to a commit log, and at its end a replica made of
 * that is compared.
 */
export const WITH_COMMIT_LOG = kind === "memory" || kind === "postgres";

const writers = new Set<Writer>();

/** Waits until all submitted units are written, which takes longer than a few ticks with a commit log. */
export async function written(): Promise<void> {
  await Promise.all([...writers].map((writer) => writer.drain()));
}

export type LoggedData = {
  leading: Leading;
  /** Options for a server that is started as a whole, as the only one of its log. */
  cluster: Cluster;
  /** Lets a test change the file without the writer; the replica is not compared then. */
  watch(runtime: Runtime): void;
  checkReplica(): Promise<void>;
};

/** A database that leads its own commit log. */
export function loggedData(): LoggedData {
  // Outside of the data directory, because tests count the files there.
  const folder = mkdtempSync(join(tmpdir(), "stoa-logged-"));
  const path = join(folder, "stoa.db");
  const replicaPath = join(folder, "replica.db");
  copyFileSync(emptyDatabaseFile(), path);
  makeLogBase(path, crypto.randomUUID());
  copyFileSync(path, replicaPath);
  const log = kind === "postgres" ? ownPostgresLog() : memoryLog();
  const fence = { isStale: () => false, fresh: async () => true };
  const nobody = () => Promise.reject(new Error("there are no other servers"));
  let tampered = false;
  let watched: Writer | null = null;
  return {
    leading: { path, log, fence, onLost: (reason) => console.error("lost:", reason) },
    cluster: {
      fence,
      term: 1,
      isLogUnreachable: () => false,
      refused: { leader: 0, member: 0, record: 0 },
      authentication: new MemberAuthentication(createKeyring(crypto.randomUUID())),
      state: () => ({ role: "leader", leader: null, position: 0, lag: 0 }),
      snapshot: nobody,
      overview: nobody,
      operate: nobody,
    },
    watch({ db, writer }) {
      watched = writer;
      writers.add(writer);
      const client = db.$client as unknown as SplitClient;
      const run = client.run.bind(client);
      client.run = (sql, values = []) => {
        if (client.inUnits) return run(sql, values);
        tampered = true;
        return client.recording.prepare(sql).run(...values);
      };
    },
    async checkReplica() {
      if (watched !== null) writers.delete(watched);
      if (!tampered) await compare();
      await log.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };

  async function compare(): Promise<void> {
    const replica = new Replica(replicaPath, []);
    for (;;) {
      const entries = await log.read(replica.position, 500);
      if (entries.length === 0) break;
      replica.apply(entries);
    }
    replica.close();
    const differences = differencesOf(path, replicaPath);
    if (differences.length > 0) throw new Error(`the replica differs: ${differences.join("; ")}`);
  }
}

/** The rows of each table that only one of the two files has. */
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
