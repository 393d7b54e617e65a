import { SQL } from "bun";
import type { Log } from "../log.ts";
import { every, type Timers } from "../timers.ts";
import {
  type CommitLog,
  type CommitRecord,
  decodeRecord,
  encodeRecord,
  Forgotten,
  LogAway,
  type LogEntry,
  type LogInfo,
  LogRefused,
  type Member,
  Overtaken,
} from "./commit-log.ts";
import { ConnectionLost, isMissing, isTaken, messageOf, PostgresConnection } from "./postgres-connection.ts";
import { postgresLeadership } from "./postgres-leadership.ts";

export type PostgresLogOptions = {
  log: Log;
  timers: Timers;
  /** How long an append is tried before it is given up. */
  appendWithinMs?: number;
  /** After so long without a word the leader has lost its right. */
  leaseMs?: number;
};

const APPEND_WITHIN_MS = 10_000;
const LEASE_MS = 5_000;
const ANSWER_WITHIN_MS = 3_000;
const RETRY_MS = 100;
/** Followers hear of an append within this long; what is acknowledged does not wait for them. */
const TELL_AFTER_MS = 20;
/** Should a notification be lost. */
const LOOK_EVERY_MS = 1_000;
const CHANNEL = "stoa_log";

/**
 * Postgres compresses what is larger than a quarter of a page, by default in a way that takes it longer than all the rest
 * of an append. One that is built without the faster way keeps its own.
 */
const FAST_COMPRESSION = "ALTER TABLE stoa_log ALTER COLUMN record SET COMPRESSION lz4";

const TABLES = [
  `CREATE TABLE IF NOT EXISTS stoa_log_info (
     one boolean PRIMARY KEY DEFAULT true CHECK (one),
     id text NOT NULL, secret_fingerprint text NOT NULL, format integer NOT NULL,
     forgotten bigint NOT NULL DEFAULT 0, term bigint NOT NULL DEFAULT 0, leader text, led_since timestamptz)`,
  "ALTER TABLE stoa_log_info ADD COLUMN IF NOT EXISTS postmaster text",
  `CREATE TABLE IF NOT EXISTS stoa_log (
     position bigint PRIMARY KEY, tag text NOT NULL, record bytea NOT NULL, at timestamptz NOT NULL DEFAULT now())`,
  `CREATE TABLE IF NOT EXISTS stoa_members (
     url text PRIMARY KEY, role text NOT NULL, position bigint NOT NULL, version text NOT NULL,
     seen_at timestamptz NOT NULL)`,
  `ALTER TABLE stoa_members ADD COLUMN IF NOT EXISTS met bigint,
     ADD COLUMN IF NOT EXISTS joined_at timestamptz NOT NULL DEFAULT now()`,
];
/** Of the tables and records; a program that knows another must not touch them. */
const FORMAT = 1;

/** Null for a moment that is. */
const sinceMs = (moment: string) =>
  `CASE WHEN ${moment} IS NOT NULL THEN greatest(0, floor(extract(epoch FROM now() - ${moment}) * 1000))::bigint END`;

/** The commit log in a Postgres: one table, whose primary key lets exactly one server write each position. */
export function postgresLog(url: string, options: PostgresLogOptions): CommitLog {
  const { log, timers, appendWithinMs = APPEND_WITHIN_MS, leaseMs = LEASE_MS } = options;
  // Appends have a connection of their own: a long read must not hold up a commit.
  const writes = new PostgresConnection(url, { greeting: ["SET synchronous_commit = on"] });
  // Only appends wait for the disk: notifications and the members' positions are said again, and whatever else is
  // written here lies before the next append, which makes it as durable as itself.
  const reads = new PostgresConnection(url, { greeting: ["SET synchronous_commit = off"] });
  const listeners = new Set<() => void>();
  const tellAll = () => {
    for (const listener of listeners) listener();
  };
  const lookAgain = every({ timers, log }, LOOK_EVERY_MS, tellAll);
  let listening: { sql: SQL; stop: () => void } | null = null;
  let telling: (() => void) | null = null;
  /** Asking for a column that is there locks the table all the same: once is enough. */
  let made = false;

  const ask = async <Row>(text: string, values: (string | number | Uint8Array | null)[] = []): Promise<Row[]> => {
    try {
      return await reads.query<Row>(text, values, ANSWER_WITHIN_MS);
    } catch (error) {
      // Somebody has emptied the log.
      if (isMissing(error)) made = false;
      throw error instanceof ConnectionLost ? new LogAway(error.message) : error;
    }
  };

  async function append(position: number, record: CommitRecord): Promise<void> {
    const tag = crypto.randomUUID();
    const bytes = encodeRecord(record);
    const until = performance.now() + appendWithinMs;
    for (let attempt = 1; ; attempt++) {
      try {
        const left = Math.max(1, until - performance.now());
        const insert = "INSERT INTO stoa_log (position, tag, record) VALUES ($1, $2, $3)";
        await writes.query(insert, [position, tag, bytes], Math.min(left, ANSWER_WITHIN_MS));
        return tellSoon();
      } catch (error) {
        if (isTaken(error)) {
          // An attempt whose answer was lost may have been the one that wrote it.
          if (attempt > 1 && (await isOurs(position, tag))) return tellSoon();
          throw new Overtaken(position);
        }
        if (performance.now() >= until) throw new LogAway(messageOf(error));
        if (attempt === 1) log.warn({ reason: messageOf(error) }, "the commit log does not answer; trying again");
      }
      await Bun.sleep(RETRY_MS);
    }
  }

  async function isOurs(position: number, tag: string): Promise<boolean> {
    const [row] = await ask<{ tag: string }>("SELECT tag FROM stoa_log WHERE position = $1", [position]);
    return row?.tag === tag;
  }

  function tellSoon(): void {
    telling ??= timers.after(TELL_AFTER_MS, () => {
      telling = null;
      // Lost with the connection at worst: whoever listens looks by itself as well.
      ask("SELECT pg_notify($1, '')", [CHANNEL]).catch(() => {});
    });
  }

  function listen(): { sql: SQL; stop: () => void } {
    const sql = new SQL(url, { max: 1, connectionTimeout: 5 });
    sql.listen(CHANNEL, tellAll, tellAll).catch(() => {
      // It looks every second meanwhile.
      listening = null;
      sql.close({ timeout: 0 }).catch(() => {});
    });
    return { sql, stop: () => void sql.close({ timeout: 0 }).catch(() => {}) };
  }

  return {
    append,
    async info(secretFingerprint) {
      for (const table of made ? [] : TABLES) {
        await ask(table).catch((error) => {
          // Two servers may make it at the same moment.
          if (!isTaken(error)) throw error;
        });
      }
      if (!made) await ask(FAST_COMPRESSION).catch(() => {});
      made = true;
      const id = crypto.randomUUID();
      const make =
        "INSERT INTO stoa_log_info (id, secret_fingerprint, format) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
      await ask(make, [id, secretFingerprint, FORMAT]);
      const [row] = await ask<Omit<LogInfo, "head" | "term"> & { head: string; term: string; format: number }>(
        `SELECT id, secret_fingerprint AS "secretFingerprint", format, term, leader,
           greatest(forgotten, (SELECT coalesce(max(position), 0) FROM stoa_log)) AS head FROM stoa_log_info`,
      );
      if (row === undefined) throw new LogAway("its tables are empty");
      if (row.format !== FORMAT) throw new LogRefused("The commit log was made by a newer Stoa. Use that version.");
      return { ...row, head: Number(row.head), term: Number(row.term) };
    },
    async known() {
      const [table] = await ask<{ there: string | null }>("SELECT to_regclass('stoa_log_info')::text AS there");
      if ((table?.there ?? null) === null) return null;
      const [row] = await ask<{ head: string; term: string; leader: string | null; ledForMs: string | null }>(
        `SELECT term, leader, ${sinceMs("led_since")} AS "ledForMs",
           greatest(forgotten, (SELECT coalesce(max(position), 0) FROM stoa_log)) AS head FROM stoa_log_info`,
      );
      if (row === undefined) return null;
      const ledForMs = row.ledForMs === null ? null : Number(row.ledForMs);
      return { ...row, head: Number(row.head), term: Number(row.term), ledForMs };
    },
    async reset() {
      await ask("DROP TABLE IF EXISTS stoa_log, stoa_log_info, stoa_members");
    },
    async read(after, limit) {
      const rows = await ask<{ position: string; record: Uint8Array }>(
        "SELECT position, record FROM stoa_log WHERE position > $1 ORDER BY position LIMIT $2",
        [after, limit],
      );
      const entries = rows.map(({ position, record }): LogEntry => {
        return { position: Number(position), record: decodeRecord(record) };
      });
      const first =
        entries[0]?.position ?? (await ask<{ forgotten: string }>("SELECT forgotten FROM stoa_log_info"))[0];
      const isGap = typeof first === "number" ? first !== after + 1 : Number(first?.forgotten ?? 0) > after;
      if (isGap) throw new Forgotten(after);
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
    lead: (memberUrl) => postgresLeadership(url, memberUrl, { log, timers, leaseMs }),
    // One that counted as gone has joined now.
    async report({ url: memberUrl, role, position, version }) {
      await ask(
        `INSERT INTO stoa_members (url, role, position, version, seen_at) VALUES ($1, $2, $3, $4, now()) ON CONFLICT (url)
         DO UPDATE SET role = excluded.role, position = excluded.position, version = excluded.version, seen_at = now(),
           joined_at = least(stoa_members.joined_at, now())`,
        [memberUrl, role, position, version],
      );
    },
    async leave(memberUrl) {
      await ask("DELETE FROM stoa_members WHERE url = $1", [memberUrl]);
    },
    async isMet(memberUrl) {
      const [row] = await ask<{ met: boolean }>(
        `SELECT leader IS NULL OR leader = $1
           OR EXISTS (SELECT 1 FROM stoa_members WHERE url = $1 AND met = term) AS met FROM stoa_log_info`,
        [memberUrl],
      );
      return row?.met === true;
    },
    async members() {
      const rows = await ask<Omit<Member, "position" | "silentMs"> & { position: string; silentMs: string }>(
        `SELECT url, role, position, version, ${sinceMs("seen_at")} AS "silentMs" FROM stoa_members ORDER BY role = 'edge', role, url`,
      );
      return rows.map((row) => ({ ...row, position: Number(row.position), silentMs: Number(row.silentMs) }));
    },
    async forgetUpTo(position) {
      // First what is promised, then what is done: whoever reads in between is told the truth.
      await ask("UPDATE stoa_log_info SET forgotten = greatest(forgotten, $1)", [position]);
      await ask("DELETE FROM stoa_log WHERE position <= $1", [position]);
    },
    async close() {
      lookAgain();
      telling?.();
      listeners.clear();
      listening?.stop();
      writes.close();
      reads.close();
    },
  };
}
