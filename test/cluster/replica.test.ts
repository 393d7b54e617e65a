import { afterEach, beforeEach, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Abstention } from "../../src/cluster/abstention.ts";
import { followUntilLeading } from "../../src/cluster/follow.ts";
import { removablePosition } from "../../src/cluster/maintenance.ts";
import { dataOrigin, makeLogBase, Replica } from "../../src/cluster/replica.ts";
import { takeOver } from "../../src/cluster/take-over.ts";
import { ReplicaDiverged } from "../../src/kernel/db/changesets.ts";
import { isDamage } from "../../src/kernel/db/health.ts";
import { type Migration, MigrationRefused, migrate } from "../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../src/kernel/db/open.ts";
import { createLog } from "../../src/kernel/log.ts";
import { differencesOf } from "../harness/logged-runtime.ts";
import { memoryLog, SharedMemory } from "../harness/memory-log.ts";

const OLD: Migration[] = [
  {
    name: "0001_all",
    hash: "1",
    sql: `CREATE TABLE log_position (id INTEGER PRIMARY KEY, log_id TEXT NOT NULL, position INTEGER NOT NULL, term INTEGER NOT NULL) STRICT;
          CREATE TABLE notes (n INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
          INSERT INTO notes VALUES (1, 'one');`,
  },
];
const NEW: Migration[] = [
  ...OLD,
  { name: "0002_more", hash: "2", sql: "ALTER TABLE notes ADD COLUMN more TEXT; UPDATE notes SET more = upper(text);" },
];

let folder: string;
const shared = () => new SharedMemory();
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoa-replica-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Two files of one log, as two servers have them. */
function twoFiles(memory: SharedMemory): [string, string] {
  const [one, two] = [join(folder, "one.db"), join(folder, "two.db")];
  const db = openDatabase(one);
  migrate(db, OLD, 0);
  closeDatabase(db);
  makeLogBase(one, memory.id);
  copyFileSync(one, two);
  return [one, two];
}

const now = () => 7;

test("the first leader of a new version migrates all members, and an older one refuses to follow or lead", async () => {
  const memory = shared();
  const log = memoryLog(memory);
  const [one, two] = twoFiles(memory);
  await takeOver({ path: one, log, term: 1, migrations: NEW, now });
  const entries = await log.read(0, 10);
  // The statements come from the program, not from the log.
  expect(JSON.stringify(entries)).not.toContain("ALTER TABLE");
  const older = new Replica(two, OLD);
  expect(() => older.apply(entries)).toThrow(MigrationRefused);
  older.close();
  const follower = new Replica(two, NEW);
  follower.apply(entries);
  expect([follower.position, follower.term]).toEqual([2, 1]);
  follower.close();
  expect(differencesOf(one, two)).toEqual([]);
  const refused = takeOver({ path: two, log, term: 2, migrations: OLD, now });
  expect(refused).rejects.toBeInstanceOf(MigrationRefused);
  await refused.catch(() => {});
  // The member that refused has written nothing.
  expect(memory.head).toBe(2);
});

test("the previous leader's last records are applied before the term begins", async () => {
  const memory = shared();
  const log = memoryLog(memory);
  const [one, two] = twoFiles(memory);
  await takeOver({ path: one, log, term: 1, migrations: OLD, now });
  await takeOver({ path: two, log, term: 2, migrations: OLD, now });
  const late = new Replica(one, OLD);
  late.apply(await log.read(late.position, 10));
  expect([late.position, late.term]).toEqual([2, 2]);
  late.close();
  expect(differencesOf(one, two)).toEqual([]);
});

test("a database that differs from the log is detected and left unchanged", async () => {
  const memory = shared();
  const log = memoryLog(memory);
  const [one, two] = twoFiles(memory);
  await takeOver({ path: one, log, term: 1, migrations: OLD, now });
  const db = openDatabase(two);
  db.$client.run("UPDATE log_position SET term = 5");
  closeDatabase(db);
  const replica = new Replica(two, OLD);
  const entries = await log.read(0, 10);
  expect(() => replica.apply(entries)).toThrow(ReplicaDiverged);
  expect(replica.position).toBe(0);
  replica.close();
});

test("a database knows which log it belongs to", () => {
  const memory = shared();
  const [one] = twoFiles(memory);
  expect(dataOrigin(one, memory.id)).toBe("this log");
  expect(dataOrigin(one, "another")).toBe("another log");
  expect(dataOrigin(join(folder, "none.db"), memory.id)).toBe("no data");
  const plain = join(folder, "plain.db");
  closeDatabase(openDatabase(plain));
  expect(dataOrigin(plain, memory.id)).toBe("no log");
});

test("the log keeps the records a member needs, unless it is long silent, an edge or far too slow", async () => {
  type Known = { role?: "leader" | "standby" | "edge"; position: number; silentMs?: number };
  const forgotten = (head: number, ...known: Known[]) => {
    const members = known.map(
      (one) => ({ url: "http://x", version: "1", role: "standby", silentMs: 0, ...one }) as const,
    );
    return removablePosition({ members: async () => members }, head);
  };
  const leader = { role: "leader", position: 50_000 } as const;
  expect(await forgotten(50_000, leader, { position: 49_000 })).toBe(40_000);
  expect(await forgotten(50_000, leader, { position: 3_000 })).toBe(3_000);
  expect(await forgotten(50_000, leader, { position: 3_000, silentMs: 599_000 })).toBe(3_000);
  expect(await forgotten(50_000, leader, { position: 3_000, silentMs: 601_000 })).toBe(40_000);
  expect(await forgotten(50_000, leader, { position: 0, role: "edge" })).toBe(40_000);
  expect(await forgotten(5_000, { ...leader, position: 5_000 })).toBe(0);
  expect(await forgotten(1_500_000, { ...leader, position: 1_500_000 }, { position: 3_000 })).toBe(500_000);
});

test("a follower whose file is damaged asks for a snapshot instead of waiting for the log", async () => {
  const memory = shared();
  const log = memoryLog(memory);
  const [one, two] = twoFiles(memory);
  await takeOver({ path: one, log, term: 1, migrations: NEW, now });
  const { $client: client } = openDatabase(two);
  const { page } = client
    .query<{ page: number }, []>("SELECT rootpage AS page FROM sqlite_schema WHERE name = 'notes'")
    .get() ?? { page: 0 };
  client.close();
  const bytes = readFileSync(two);
  writeFileSync(two, bytes.fill(0xff, (page - 1) * 4_096, page * 4_096));
  const replica = new Replica(two, NEW);
  const lines: string[] = [];
  const logger = createLog({ level: "warn", format: "json", write: (line) => void lines.push(line) });
  const following = followUntilLeading({
    log,
    replica,
    url: "http://two",
    abstention: new Abstention(),
    logger,
    signal: new AbortController().signal,
  });
  const error = await following.catch((failure: unknown) => failure);
  replica.close();
  expect(isDamage(error)).toBe(true);
  expect(lines).toEqual([]);
});
