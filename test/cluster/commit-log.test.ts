import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { SQL } from "bun";
import { type CommitLog, type CommitRecord, LogTruncated, PositionTaken } from "../../src/kernel/db/commit-log.ts";
import { LogSeal } from "../../src/kernel/db/log-seal.ts";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers, type Timers } from "../../src/kernel/time/timers.ts";
import { memoryLog, SharedMemory } from "../harness/memory-log.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";

/** Opens one more member's view of the same log. */
type Shared = { open(): CommitLog };

const log = createLog({ level: "silent", format: "json" });
let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
});
afterAll(() => postgres.close());

const KINDS: Record<string, () => Promise<Shared>> = {
  "in memory": async () => {
    const shared = new SharedMemory();
    return { open: () => memoryLog(shared) };
  },
  "in Postgres": async () => {
    const url = await postgres.database();
    return { open: () => postgresLog(url, { log, timers: systemTimers, leaseMs: 2_000 }) };
  },
  "in Postgres, sealed": async () => {
    const url = await postgres.database();
    const seal = () => new LogSeal({ key: Buffer.alloc(32, 1), isRequired: true });
    return { open: () => postgresLog(url, { log, timers: systemTimers, leaseMs: 2_000, seal: seal() }) };
  },
};

const changes = (...bytes: number[]): CommitRecord => ({ kind: "changes", changes: Uint8Array.of(...bytes) });
const bytesOf = (record: CommitRecord) => (record.kind === "changes" ? [...record.changes] : record.migrations);

for (const [kind, make] of Object.entries(KINDS)) {
  describe(kind, () => {
    const opened: CommitLog[] = [];
    afterEach(async () => {
      for (const one of opened.splice(0)) await one.close();
    });
    async function logs(count: number): Promise<CommitLog[]> {
      const shared = await make();
      const made = Array.from({ length: count }, () => shared.open());
      opened.push(...made);
      for (const one of made) await one.info("fingerprint");
      return made;
    }

    test("a new log is empty and keeps its identity and secret", async () => {
      const [one, two] = (await logs(2)) as [CommitLog, CommitLog];
      const info = await one.info("fingerprint");
      expect(info).toMatchObject({ head: 0, term: 0, leader: null, secretFingerprint: "fingerprint" });
      expect(await two.info("another")).toEqual(info);
      expect(await one.read(0, 10)).toEqual([]);
    });

    test("appended records are read in order and byte for byte", async () => {
      const [one, two] = (await logs(2)) as [CommitLog, CommitLog];
      for (let n = 1; n <= 5; n++) await one.append(n, changes(n, 0, 255));
      await one.append(6, { kind: "migrations", migrations: [{ name: "0001", hash: "h" }], at: 7 });
      const read = await two.read(1, 3);
      expect(read.map(({ position }) => position)).toEqual([2, 3, 4]);
      expect(read.map(({ record }) => bytesOf(record))).toEqual([2, 3, 4].map((n) => [n, 0, 255]));
      expect((await two.read(5, 10))[0]?.record).toMatchObject({ kind: "migrations", at: 7 });
      expect((await two.info("fingerprint")).head).toBe(6);
    });

    test("of two concurrent appends exactly one gets the position, and the other is refused as overtaken", async () => {
      const [one, two] = (await logs(2)) as [CommitLog, CommitLog];
      const outcomes = await Promise.allSettled([one.append(1, changes(1)), two.append(1, changes(2))]);
      expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      const refused = outcomes.find((outcome) => outcome.status === "rejected");
      expect(refused?.reason).toBeInstanceOf(PositionTaken);
      expect(await one.read(0, 10)).toHaveLength(1);
    });

    test("a listener is notified of another member's append", async () => {
      const [one, two] = (await logs(2)) as [CommitLog, CommitLog];
      const heard = new Promise<void>((resolve) => {
        const stop = two.onAppended(async () => {
          if ((await two.read(0, 1)).length === 0) return;
          stop();
          resolve();
        });
      });
      await one.append(1, changes(1));
      await heard;
    });

    test("reading trimmed records fails instead of skipping them", async () => {
      const [one, two] = (await logs(2)) as [CommitLog, CommitLog];
      for (let n = 1; n <= 4; n++) await one.append(n, changes(n));
      await one.truncate(3);
      expect((await two.read(3, 10)).map(({ position }) => position)).toEqual([4]);
      expect(two.read(2, 10)).rejects.toBeInstanceOf(LogTruncated);
      await one.truncate(4);
      expect(two.read(2, 10)).rejects.toBeInstanceOf(LogTruncated);
      expect(await two.read(4, 10)).toEqual([]);
      expect((await two.info("fingerprint")).head).toBe(4);
      await one.append(5, changes(5));
    });

    test("one member leads at a time, each with a higher term", async () => {
      const [one, two] = (await logs(2)) as [CommitLog, CommitLog];
      const first = await one.lead("http://one");
      expect(first?.term).toBe(1);
      expect(await two.lead("http://two")).toBeNull();
      expect(await two.info("fingerprint")).toMatchObject({ leader: "http://one", term: 1 });
      await first?.resign();
      let second = await two.lead("http://two");
      // The session of the first may take a moment to end.
      for (let attempt = 0; second === null && attempt < 300; attempt++) {
        await Bun.sleep(100);
        second = await two.lead("http://two");
      }
      expect(second?.term).toBe(2);
      await second?.resign();
    });

    test("members report their positions until they leave", async () => {
      const [one, two] = (await logs(2)) as [CommitLog, CommitLog];
      await one.report({ url: "http://one", role: "leader", position: 3, version: "1" });
      await two.report({ url: "http://two", role: "standby", position: 1, version: "1" });
      await two.report({ url: "http://two", role: "standby", position: 2, version: "2" });
      expect(await one.members()).toMatchObject([
        { url: "http://one", role: "leader", position: 3, version: "1" },
        { url: "http://two", role: "standby", position: 2, version: "2" },
      ]);
      await two.leave("http://two");
      expect((await one.members()).map(({ url }) => url)).toEqual(["http://one"]);
    });
  });
}

test("in Postgres, a member unknown to the leader waits until the leader's lease is over", async () => {
  const url = await postgres.database();
  // A leader that is cut off: it takes the lock, and is not heard of again.
  const silent = { after: () => () => {} };
  const [cutOff, next] = [silent, systemTimers].map((timers) => postgresLog(url, { log, timers, leaseMs: 60_000 }));
  const sql = new SQL(url, { max: 1 });
  try {
    await cutOff?.info("fingerprint");
    const first = await cutOff?.lead("http://one");
    await first?.confirm();
    await next?.report({ url: "http://two", role: "standby", position: 0, version: "1" });
    expect(await next?.isKnownToLeader("http://two")).toBe(false);
    const endSession = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'";
    await sql.unsafe(endSession);
    while ((await sql.unsafe("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).length > 0) await Bun.sleep(5);
    expect(await next?.lead("http://two")).toBeNull();
    expect((await next?.known())?.term).toBe(1);
    await sql.unsafe("UPDATE stoa_members SET met = 1");
    const second = await next?.lead("http://two");
    expect(second?.term).toBe(2);
    await second?.undisputed;
    await second?.resign();
    expect((await next?.known())?.leader).toBeNull();
    // One that led with a version that noted nothing is followed as ever.
    await sql.unsafe("UPDATE stoa_log_info SET leader = 'http://old', term = 3");
    const third = await next?.lead("http://three");
    expect(third?.term).toBe(4);
    await third?.resign();
    await first?.resign();
  } finally {
    await sql.close({ timeout: 0 });
    await cutOff?.close();
    await next?.close();
  }
}, 60_000);

test("in Postgres, the leader does not wait for a silent member, which cannot lead before the leader knows it again", async () => {
  const url = await postgres.database();
  const held: (() => void)[] = [];
  let isCutOff = false;
  const after: Timers["after"] = (ms, run) => systemTimers.after(ms, () => void (isCutOff ? held.push(run) : run()));
  const one = postgresLog(url, { log, timers: { after }, leaseMs: 1_000 });
  const two = postgresLog(url, { log, timers: systemTimers });
  const sql = new SQL(url, { max: 1 });
  const report = () => two.report({ url: "http://two", role: "standby", position: 0, version: "1" });
  const isMet = async () => (await sql.unsafe("SELECT met FROM stoa_members"))[0]?.met !== null;
  try {
    await one.info("fingerprint");
    await report();
    const first = await one.lead("http://one");
    while (!(await isMet())) await Bun.sleep(20);
    expect(first?.peers()).toEqual(["http://two"]);
    await sql.unsafe("UPDATE stoa_members SET seen_at = now() - interval '1 minute'");
    while (first?.peers()?.length !== 0) await Bun.sleep(20);
    // The unreadable member is still shown to people.
    expect(await one.members()).toHaveLength(1);

    // The leader is cut off, and its lock goes with its session. It has no peers to ask now.
    isCutOff = true;
    await first?.confirm();
    await sql.unsafe("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'");
    const isFree = async () => (await sql.unsafe("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")).length === 0;
    while (!(await isFree())) await Bun.sleep(5);
    expect(await two.lead("http://two")).toBeNull();
    while (!(await isFree())) await Bun.sleep(5);
    await report();
    expect(await two.lead("http://two")).toBeNull();
    expect((await two.known())?.term).toBe(1);

    // Back again it meets it.
    isCutOff = false;
    for (const run of held.splice(0)) run();
    while (!(await isMet())) await Bun.sleep(20);
    expect(first?.peers()).toEqual(["http://two"]);
    await first?.resign();
  } finally {
    await sql.close({ timeout: 0 });
    await one.close();
    await two.close();
  }
}, 60_000);
