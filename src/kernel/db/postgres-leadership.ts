import { messageOf } from "../error-message.ts";
import type { Log } from "../log.ts";
import { createElapsed } from "../time/elapsed.ts";
import { every, type Timers } from "../time/timers.ts";
import type { Leadership } from "./commit-log.ts";
import { acceptsMember, type LogSeal, type MemberRow } from "./log-seal.ts";
import { PostgresConnection } from "./postgres-connection.ts";

/** The advisory lock; an arbitrary number that no other program uses. */
const LOCK = "7310594803";
const HEARTBEATS_PER_LEASE = 5;
const QUERY_TIMEOUT_MS = 3_000;
const RESIGN_TIMEOUT_MS = 1_000;
/** How long the known members can let a leader serve reads while the log does not respond. */
const MAX_UNREACHABLE_MS = 120_000;
/** A member that does not report for this long counts as gone. */
const GONE_AFTER_MS = 30_000;
/**
 * The `joined_at` of a member that is gone. It cannot become leader until it reports again, so the leader need not ask
 * it. Its URL is not probed: a refused connection may come from a member that is about to become leader.
 */
const NEVER = "timestamptz '9999-01-01'";
/** SQL that identifies the term and the Postgres process in which the leader took its lock. */
const lockedIn = (term: string) => `${term} || ' ' || pg_postmaster_start_time()`;

type Peer = MemberRow & { met: number | null; isSilent: boolean };
type Deps = { log: Log; timers: Timers; leaseMs: number; seal?: LogSeal; format: number };

/**
 * The holder of the advisory lock is the leader. Postgres ends a session without queries for the length of the lease,
 * and releases its lock; a heartbeat prevents that. A session that was lost for another reason is opened again, and
 * this server is still the leader unless the term shows that another has led since. The log's primary key alone ensures
 * that no position is written twice; this lease ensures that no stale data is served.
 */
export async function postgresLeadership(url: string, memberUrl: string, deps: Deps): Promise<Leadership | null> {
  const { log, timers, leaseMs, seal, format } = deps;
  const setup = [
    `SET idle_session_timeout = ${leaseMs}`,
    `SET idle_in_transaction_session_timeout = ${leaseMs}`,
    "SET tcp_user_timeout = 10000",
  ];
  const elapsed = createElapsed();
  let holds = false;
  let confirmedAt = Number.NEGATIVE_INFINITY;
  const connection = new PostgresConnection(url, {
    setup,
    onLost: () => {
      // From now on another server may have the lock.
      holds = false;
      confirmedAt = Number.NEGATIVE_INFINITY;
    },
  });
  const query = <Row>(text: string, values: (string | null)[] = []) =>
    connection.query<Row>(text, values, QUERY_TIMEOUT_MS);
  const lock = async () => {
    const [row] = await query<{ ok: boolean }>(`SELECT pg_try_advisory_lock(${LOCK}) AS ok`);
    holds = row?.ok === true;
    return holds;
  };
  const isSilent = `seen_at < now() - interval '${GONE_AFTER_MS} milliseconds'`;
  const isGone = `met IS NULL AND joined_at = ${NEVER} AND ${isSilent}`;
  const listPeers = `SELECT coalesce(json_agg(json_build_object('url', url, 'met', met,
      'isSilent', ${isSilent}, 'role', role, 'position', position, 'version', version, 'seal', seal)), '[]') AS peers
    FROM stoa_members WHERE role <> 'edge' AND url <> $1 AND NOT (${isGone})`;

  try {
    if (!(await lock())) {
      connection.close();
      return null;
    }
    const before = await predecessor();
    if (before === "may still serve") {
      connection.close();
      return null;
    }
    const queriedAt = elapsed();
    const [info] = await query<{ id: string; term: string }>("SELECT id, term FROM stoa_log_info");
    if (info === undefined) throw new Error("the tables of the commit log are empty");
    const term = Number(info.term) + 1;
    const sealed = seal?.sealRow("leader", info.id, term, memberUrl) ?? null;
    const began = await query(
      `UPDATE stoa_log_info SET term = $2::bigint, leader = $1, seal = $3, format = ${format}, led_since = now(),
         postmaster = ${lockedIn("$2::text")} WHERE term = $2::bigint - 1 RETURNING term`,
      [memberUrl, String(term), sealed],
    );
    if (began.length === 0) throw new Error("another server began a term");
    confirmedAt = queriedAt;
    return lead(term, info.id, before === "may not know" ? Bun.sleep(leaseMs) : Promise.resolve());
  } catch (error) {
    connection.close();
    throw error;
  }

  /** What a previous leader that has not resigned may still do although its lock is free. */
  async function predecessor(): Promise<"nothing" | "may not know" | "may still serve"> {
    const [found] = await query<{ leader: string | null; isKnown: boolean; lockGone: boolean; isMet: boolean }>(
      `SELECT leader, coalesce(split_part(postmaster, ' ', 1) = term::text, false) AS "isKnown",
         postmaster <> ${lockedIn("term")} AS "lockGone",
         EXISTS (SELECT 1 FROM stoa_members WHERE url = $1
           AND (met = term OR now() - joined_at > interval '${MAX_UNREACHABLE_MS + 2 * leaseMs} milliseconds')) AS "isMet"
       FROM stoa_log_info`,
      [memberUrl],
    );
    if (found === undefined || found.leader === null || found.leader === memberUrl) return "nothing";
    // The version of the previous leader did not record this.
    if (!found.isKnown) return "nothing";
    // A leader that is cut off from the log serves as long as the members that it knows permit; members that it does
    // not know must wait.
    if (!found.isMet) return "may still serve";
    // The lock of the previous leader ended with its Postgres process. Otherwise it released the lock or sent nothing
    // for a whole lease.
    return found.lockGone ? "may not know" : "nothing";
  }

  function lead(term: number, logId: string, undisputed: Promise<void>): Leadership {
    const { promise: lost, resolve: lose } = Promise.withResolvers<string>();
    let unsureSince: number | null = null;
    let confirming: Promise<void> | null = null;
    let answeredAt = confirmedAt;
    let peers: string[] | null = null;
    let steadySince: number | null = null;

    async function heartbeat(): Promise<void> {
      try {
        // After the connection was lost, the lock is taken again; the old session may hold it for the rest of its
        // lease.
        const isNew = !holds;
        const locked = holds || (await lock());
        const queriedAt = elapsed();
        const [row] = await query<{ term: string; leader: string; peers: Peer[] }>(
          `SELECT term, leader, (${listPeers}) AS peers FROM stoa_log_info`,
          [memberUrl],
        );
        if (row === undefined || Number(row.term) !== term) return lose(`${row?.leader} leads in term ${row?.term}`);
        if (!locked || !holds) throw new Error("the lock is held by another session");
        if (isNew)
          await query(`UPDATE stoa_log_info SET postmaster = ${lockedIn("term")} WHERE term = $1`, [String(term)]);
        confirmedAt = answeredAt = queriedAt;
        const authentic = row.peers.filter((peer) => acceptsMember(seal, logId, peer));
        peers = authentic.map(({ url }) => url);
        const isUnmet = authentic.some(({ met }) => met !== term);
        // The members are marked as met only after they are known here, because a member that is met may become leader
        // without waiting.
        if (isUnmet)
          await query("UPDATE stoa_members SET met = $1 WHERE url = ANY($2)", [String(term), arrayOf(peers)]);
        steadySince ??= queriedAt;
        if (row.peers.some(({ isSilent }) => isSilent) && queriedAt - steadySince > 2 * leaseMs)
          await removeSilentMembers();
        if (unsureSince !== null) log.info({ term }, "commit-log: leadership confirmed");
        unsureSince = null;
      } catch (error) {
        if (unsureSince === null) log.warn({ reason: messageOf(error), term }, "commit-log: leadership not confirmed");
        unsureSince ??= Date.now();
        // Members that lost the log together with this server need a moment to report again.
        steadySince = null;
      }
    }

    /** Runs in the session that holds the lock, so that a later leader sees that these members must be met first. */
    async function removeSilentMembers(): Promise<void> {
      const gone = await query<{ url: string }>(
        `UPDATE stoa_members SET met = NULL, joined_at = ${NEVER}
         WHERE role <> 'edge' AND url <> $1 AND ${isSilent} RETURNING url`,
        [memberUrl],
      );
      const urls = new Set(gone.map(({ url }) => url));
      peers = (peers ?? []).filter((url) => !urls.has(url));
      log.info({ gone: [...urls] }, "commit-log: removed members that stopped reporting");
    }

    const confirm = () => {
      confirming ??= heartbeat().finally(() => {
        confirming = null;
      });
      return confirming;
    };
    void confirm();
    const stop = every({ timers, log }, leaseMs / HEARTBEATS_PER_LEASE, confirm);
    return {
      term,
      lost,
      undisputed,
      get unsureSince() {
        return unsureSince;
      },
      sureForMs: () => confirmedAt + leaseMs - elapsed(),
      peers: () => (elapsed() - answeredAt > MAX_UNREACHABLE_MS ? null : peers),
      confirm,
      async resign() {
        stop();
        // The next leader need not wait for a server that has resigned.
        if (holds) {
          await connection
            .query("UPDATE stoa_log_info SET leader = NULL WHERE term = $1", [String(term)], RESIGN_TIMEOUT_MS)
            .catch(() => {});
        }
        connection.close();
      },
    };
  }
}

function arrayOf(values: readonly string[]): string {
  return `{${values.map((value) => JSON.stringify(value)).join(",")}}`;
}
