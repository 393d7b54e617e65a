import { SQL } from "bun";
import { messageOf } from "../error-message.ts";
import type { Log } from "../log.ts";
import { every, type Timers } from "../time/timers.ts";
import {
  type CommitLog,
  type CommitRecord,
  decodeRecord,
  encodeRecord,
  type LogEntry,
  LogRefused,
  LogRolledBack,
  LogTruncated,
  LogUnavailable,
  PositionTaken,
} from "./commit-log.ts";
import { acceptsMember, type LogSeal, type MemberRow } from "./log-seal.ts";
import { ConnectionLost, isUndefinedTable, isUniqueViolation, PostgresConnection } from "./postgres-connection.ts";
import { postgresLeadership } from "./postgres-leadership.ts";

type PostgresLogOptions = {
  log: Log;
  timers: Timers;
  /** Without a seal nothing is authenticated; used to display a log without knowing its secret. */
  seal?: LogSeal;
  /** A leader that sends nothing for this long loses its leadership. */
  leaseMs?: number;
};

const APPEND_TIMEOUT_MS = 10_000;
const LEASE_MS = 5_000;
const QUERY_TIMEOUT_MS = 3_000;
const RETRY_MS = 100;
/** Followers are notified of an append this much later; its acknowledgement does not wait for them. */
const NOTIFY_AFTER_MS = 20;
/** Listeners also run this often, because a notification can be lost. */
const POLL_EVERY_MS = 1_000;
const CHANNEL = "stoa_log";

/**
 * Postgres compresses values larger than a quarter of a page, and its default method takes longer than the rest of an
 * append. A Postgres without lz4 keeps its default.
 */
const FAST_COMPRESSION = "ALTER TABLE stoa_log ALTER COLUMN record SET COMPRESSION lz4";

const TABLES = [
  `CREATE TABLE IF NOT EXISTS stoa_log_info (
     one boolean PRIMARY KEY DEFAULT true CHECK (one),
     id text NOT NULL, secret_fingerprint text NOT NULL, format integer NOT NULL,
     forgotten bigint NOT NULL DEFAULT 0, term bigint NOT NULL DEFAULT 0, leader text, led_since timestamptz)`,
  "ALTER TABLE stoa_log_info ADD COLUMN IF NOT EXISTS postmaster text, ADD COLUMN IF NOT EXISTS seal text",
  `CREATE TABLE IF NOT EXISTS stoa_log (
     position bigint PRIMARY KEY, tag text NOT NULL, record bytea NOT NULL, at timestamptz NOT NULL DEFAULT now())`,
  `CREATE TABLE IF NOT EXISTS stoa_members (
     url text PRIMARY KEY, role text NOT NULL, position bigint NOT NULL, version text NOT NULL,
     seen_at timestamptz NOT NULL)`,
  `ALTER TABLE stoa_members ADD COLUMN IF NOT EXISTS met bigint,
     ADD COLUMN IF NOT EXISTS joined_at timestamptz NOT NULL DEFAULT now(), ADD COLUMN IF NOT EXISTS seal text`,
];
/**
 * The version of the tables and records; a program of a lower version must not use them. Records and rows are authenticated
 * since 2: a log of version 1 becomes one of version 2 with its next leader.
 */
const FORMAT = 2;

/** SQL for the milliseconds since a time; null for null. */
const sinceMs = (moment: string) =>
  `CASE WHEN ${moment} IS NOT NULL THEN greatest(0, floor(extract(epoch FROM now() - ${moment}) * 1000))::bigint END`;

type LeaderRow = { id: string; term: string; leader: string | null; seal: string | null };
const LEADER_COLUMNS = "id, term, leader, seal";

/** The commit log in a Postgres: one table, whose primary key lets exactly one server write each position. */
export function postgresLog(url: string, options: PostgresLogOptions): CommitLog {
  const { log, timers, seal, leaseMs = LEASE_MS } = options;
  // Appends have their own connection, because a long read must not delay a commit.
  const writes = new PostgresConnection(url, { setup: ["SET synchronous_commit = on"] });
  // Only appends wait for the disk: notifications and positions are repeated, and all other writes become durable with
  // the next append.
  const reads = new PostgresConnection(url, { setup: ["SET synchronous_commit = off"] });
  const listeners = new Set<() => void>();
  const notifyListeners = () => {
    for (const listener of listeners) listener();
  };
  const stopPolling = every({ timers, log }, POLL_EVERY_MS, notifyListeners);
  let listening: { sql: SQL; stop: () => void } | null = null;
  let cancelNotify: (() => void) | null = null;
  /** `ADD COLUMN IF NOT EXISTS` locks the table even when the column exists, so it runs once. */
  let hasTables = false;
  let logId: string | null = null;
  /** The last record that was read or written, to which the next one refers. */
  let last: { position: number; mac: Uint8Array | null } = { position: 0, mac: null };

  const query = async <Row>(text: string, values: (string | number | Uint8Array | null)[] = []): Promise<Row[]> => {
    try {
      return await reads.query<Row>(text, values, QUERY_TIMEOUT_MS);
    } catch (error) {
      // The log was reset.
      if (isUndefinedTable(error)) hasTables = false;
      throw error instanceof ConnectionLost ? new LogUnavailable(error.message) : error;
    }
  };

  async function idOfLog(): Promise<string> {
    logId ??= (await query<{ id: string }>("SELECT id FROM stoa_log_info"))[0]?.id ?? null;
    if (logId === null) throw new LogUnavailable("its tables are empty");
    return logId;
  }

  /** The seal of a record; null if the record does not exist or has none. */
  async function sealAt(position: number): Promise<Uint8Array | null> {
    if (seal === undefined || position === 0) return null;
    if (last.position === position) return last.mac;
    const [row] = await query<{ record: Uint8Array }>("SELECT record FROM stoa_log WHERE position = $1", [position]);
    if (row === undefined) return null;
    return seal.open(await idOfLog(), position, null, row.record).mac;
  }

  async function append(position: number, record: CommitRecord): Promise<void> {
    const tag = crypto.randomUUID();
    const sealed = seal?.close(await idOfLog(), position, await sealAt(position - 1), record);
    const bytes = sealed?.bytes ?? encodeRecord(record);
    const done = () => {
      last = { position, mac: sealed?.mac ?? null };
      notifySoon();
    };
    const until = performance.now() + APPEND_TIMEOUT_MS;
    for (let attempt = 1; ; attempt++) {
      try {
        const left = Math.max(1, until - performance.now());
        const insert = "INSERT INTO stoa_log (position, tag, record) VALUES ($1, $2, $3)";
        await writes.query(insert, [position, tag, bytes], Math.min(left, QUERY_TIMEOUT_MS));
        return done();
      } catch (error) {
        if (isUniqueViolation(error)) {
          // An earlier attempt whose response was lost may have written the record.
          if (attempt > 1 && (await isOurs(position, tag))) return done();
          throw new PositionTaken(position);
        }
        if (performance.now() >= until) throw new LogUnavailable(messageOf(error));
        if (attempt === 1) log.warn({ reason: messageOf(error) }, "commit-log: append failed, retrying");
      }
      await Bun.sleep(RETRY_MS);
    }
  }

  async function isOurs(position: number, tag: string): Promise<boolean> {
    const [row] = await query<{ tag: string }>("SELECT tag FROM stoa_log WHERE position = $1", [position]);
    return row?.tag === tag;
  }

  function notifySoon(): void {
    cancelNotify ??= timers.after(NOTIFY_AFTER_MS, () => {
      cancelNotify = null;
      // A lost notification has no effect, because listeners poll as well.
      query("SELECT pg_notify($1, '')", [CHANNEL]).catch(() => {});
    });
  }

  function listen(): { sql: SQL; stop: () => void } {
    const sql = new SQL(url, { max: 1, connectionTimeout: 5 });
    sql.listen(CHANNEL, notifyListeners, notifyListeners).catch(() => {
      // Polling continues in the meantime.
      listening = null;
      sql.close({ timeout: 0 }).catch(() => {});
    });
    return { sql, stop: () => void sql.close({ timeout: 0 }).catch(() => {}) };
  }

  const leaderOf = ({ id, term, leader, seal: given }: LeaderRow) =>
    leader !== null && (seal?.accepts("leader", given, id, term, leader) ?? true) ? leader : null;

  return {
    append,
    async info(secretFingerprint) {
      for (const table of hasTables ? [] : TABLES) {
        await query(table).catch((error) => {
          // Another server may create the log at the same time.
          if (!isUniqueViolation(error)) throw error;
        });
      }
      if (!hasTables) await query(FAST_COMPRESSION).catch(() => {});
      hasTables = true;
      const id = crypto.randomUUID();
      const make =
        "INSERT INTO stoa_log_info (id, secret_fingerprint, format) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
      await query(make, [id, secretFingerprint, FORMAT]);
      const [row] = await query<LeaderRow & { head: string; secretFingerprint: string; format: number }>(
        `SELECT ${LEADER_COLUMNS}, secret_fingerprint AS "secretFingerprint", format,
           greatest(forgotten, (SELECT coalesce(max(position), 0) FROM stoa_log)) AS head FROM stoa_log_info`,
      );
      if (row === undefined) throw new LogUnavailable("its tables are empty");
      if (row.format > FORMAT) throw new LogRefused("The commit log was made by a newer Stoa. Use that version.");
      logId = row.id;
      const { format: _format, seal: _seal, ...info } = row;
      return { ...info, head: Number(row.head), term: Number(row.term), leader: leaderOf(row) };
    },
    async known() {
      const [table] = await query<{ there: string | null }>("SELECT to_regclass('stoa_log_info')::text AS there");
      if ((table?.there ?? null) === null) return null;
      // Null if an older version created the log and no server of this version has joined it yet.
      const columns = "id, term, leader, to_jsonb(stoa_log_info) ->> 'seal' AS seal";
      const [row] = await query<LeaderRow & { head: string; ledForMs: string | null }>(
        `SELECT ${columns}, ${sinceMs("led_since")} AS "ledForMs",
           greatest(forgotten, (SELECT coalesce(max(position), 0) FROM stoa_log)) AS head FROM stoa_log_info`,
      );
      if (row === undefined) return null;
      const ledForMs = row.ledForMs === null ? null : Number(row.ledForMs);
      return { leader: leaderOf(row), head: Number(row.head), term: Number(row.term), ledForMs };
    },
    async reset() {
      logId = null;
      await query("DROP TABLE IF EXISTS stoa_log, stoa_log_info, stoa_members");
    },
    async read(after, limit) {
      const rows = await query<{ position: string; record: Uint8Array }>(
        "SELECT position, record FROM stoa_log WHERE position > $1 ORDER BY position LIMIT $2",
        [after, limit],
      );
      if (rows.length === 0) {
        const [info] = await query<{ forgotten: string; head: string }>(
          "SELECT forgotten, greatest(forgotten, (SELECT coalesce(max(position), 0) FROM stoa_log)) AS head FROM stoa_log_info",
        );
        if (Number(info?.forgotten ?? 0) > after) throw new LogTruncated(after);
        if (info !== undefined && Number(info.head) < after) throw new LogRolledBack(Number(info.head), after);
        return [];
      }
      const isGapless = rows.every(({ position }, index) => Number(position) === after + 1 + index);
      if (!isGapless) throw new LogTruncated(after);
      if (seal === undefined) {
        return rows.map(({ position, record }) => ({ position: Number(position), record: decodeRecord(record) }));
      }
      const id = await idOfLog();
      let before = { position: after, mac: await sealAt(after) };
      const entries: LogEntry[] = [];
      for (const { position, record: bytes } of rows) {
        const { record, mac } = seal.open(id, Number(position), before.mac, bytes);
        before = { position: Number(position), mac };
        entries.push({ position: before.position, record });
      }
      last = before;
      return entries;
    },
    onAppended(listener) {
      listeners.add(listener);
      listening ??= listen();
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        listening?.stop();
        listening = null;
      };
    },
    lead: (memberUrl) => postgresLeadership(url, memberUrl, { log, timers, leaseMs, seal, format: FORMAT }),
    // A member that counted as gone joins again with its report.
    async report({ url: memberUrl, role, position, version }) {
      const sealed = seal?.sealRow("member", await idOfLog(), memberUrl, role, position, version) ?? null;
      await query(
        `INSERT INTO stoa_members (url, role, position, version, seal, seen_at) VALUES ($1, $2, $3, $4, $5, now())
         ON CONFLICT (url) DO UPDATE SET role = excluded.role, position = excluded.position, version = excluded.version,
           seal = excluded.seal, seen_at = now(), joined_at = least(stoa_members.joined_at, now())`,
        [memberUrl, role, position, version, sealed],
      );
    },
    async leave(memberUrl) {
      await query("DELETE FROM stoa_members WHERE url = $1", [memberUrl]);
    },
    async isKnownToLeader(memberUrl) {
      const [row] = await query<{ met: boolean }>(
        `SELECT leader IS NULL OR leader = $1
           OR EXISTS (SELECT 1 FROM stoa_members WHERE url = $1 AND met = term) AS met FROM stoa_log_info`,
        [memberUrl],
      );
      return row?.met === true;
    },
    async members() {
      const rows = await query<MemberRow & { silentMs: string }>(
        `SELECT url, role, position, version, to_jsonb(stoa_members) ->> 'seal' AS seal,
           ${sinceMs("seen_at")} AS "silentMs" FROM stoa_members ORDER BY role = 'edge', role, url`,
      );
      const id = seal === undefined ? "" : await idOfLog();
      return rows
        .filter((row) => acceptsMember(seal, id, row))
        .map(({ seal: _, ...row }) => ({ ...row, position: Number(row.position), silentMs: Number(row.silentMs) }));
    },
    async truncate(position) {
      // The mark is written first, so that a concurrent reader learns of the deletion.
      await query("UPDATE stoa_log_info SET forgotten = greatest(forgotten, $1)", [position]);
      await query("DELETE FROM stoa_log WHERE position <= $1", [position]);
    },
    async close() {
      stopPolling();
      cancelNotify?.();
      listeners.clear();
      listening?.stop();
      writes.close();
      reads.close();
    },
  };
}
