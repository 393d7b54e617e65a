import type { Log } from "../log.ts";
import { every, type Timers } from "../timers.ts";
import type { Leadership } from "./commit-log.ts";
import { createElapsed } from "./elapsed.ts";
import { messageOf, PostgresConnection } from "./postgres-connection.ts";

/** Of the advisory lock; any number that nobody else takes. */
const LOCK = "7310594803";
const BEATS_PER_LEASE = 5;
const ANSWER_WITHIN_MS = 3_000;
const RESIGN_WITHIN_MS = 1_000;
/** How long those whom a leader knows can let it show what it has while the log is away. */
const MOST_SILENT_MS = 120_000;
/** After so long without a word a member counts as gone. */
const GONE_AFTER_MS = 30_000;
/**
 * When a member that is gone has joined: never. Until it has said so anew it cannot lead, so nobody has to ask it. Who is
 * at its address plays no part: a connection that is refused may be refused by one that is just about to lead.
 */
const NEVER = "timestamptz '9999-01-01'";
/** Where the leader of a term took its lock: in which life of which Postgres. */
const lockedIn = (term: string) => `${term} || ' ' || pg_postmaster_start_time()`;

type Peer = { url: string; met: number | null; isSilent: boolean };
type Deps = { log: Log; timers: Timers; leaseMs: number };

/**
 * Who holds the advisory lock leads. Postgres ends a session that says nothing for the time of the lease, and the lock
 * with it; a beat keeps it. A session that broke for another reason is made again: unless somebody else has led since,
 * which the term tells, the right is still ours. That nothing is written twice does not rest on any of this, but on the
 * positions of the log; that nothing stale is shown does.
 */
export async function postgresLeadership(url: string, memberUrl: string, deps: Deps): Promise<Leadership | null> {
  const { log, timers, leaseMs } = deps;
  const greeting = [
    `SET idle_session_timeout = ${leaseMs}`,
    `SET idle_in_transaction_session_timeout = ${leaseMs}`,
    "SET tcp_user_timeout = 10000",
  ];
  const elapsed = createElapsed();
  let holds = false;
  let confirmedAt = Number.NEGATIVE_INFINITY;
  const connection = new PostgresConnection(url, {
    greeting,
    onLost: () => {
      // Gone, or given up by us: from now on another may have the lock.
      holds = false;
      confirmedAt = Number.NEGATIVE_INFINITY;
    },
  });
  const ask = <Row>(text: string, values: string[] = []) => connection.query<Row>(text, values, ANSWER_WITHIN_MS);
  const lock = async () => {
    const [row] = await ask<{ ok: boolean }>(`SELECT pg_try_advisory_lock(${LOCK}) AS ok`);
    holds = row?.ok === true;
    return holds;
  };
  const isSilent = `seen_at < now() - interval '${GONE_AFTER_MS} milliseconds'`;
  const isGone = `met IS NULL AND joined_at = ${NEVER} AND ${isSilent}`;
  const listPeers = `SELECT coalesce(json_agg(json_build_object('url', url, 'met', met, 'isSilent', ${isSilent})), '[]') AS peers
    FROM stoa_members WHERE role <> 'edge' AND url <> $1 AND NOT (${isGone})`;

  try {
    if (!(await lock())) {
      connection.close();
      return null;
    }
    const before = await predecessor();
    if (before === "may show on") {
      connection.close();
      return null;
    }
    const askedAt = elapsed();
    const [row] = await ask<{ term: string }>(
      `UPDATE stoa_log_info SET term = term + 1, leader = $1, led_since = now(), postmaster = ${lockedIn("(term + 1)")}
       RETURNING term`,
      [memberUrl],
    );
    confirmedAt = askedAt;
    return holding(Number(row?.term), before === "may not have heard" ? Bun.sleep(leaseMs) : Promise.resolve());
  } catch (error) {
    connection.close();
    throw error;
  }

  /** What the leader before, which has not resigned, may still believe now that its lock is free. */
  async function predecessor(): Promise<"nothing" | "may not have heard" | "may show on"> {
    const [found] = await ask<{ leader: string | null; isKnown: boolean; lockGone: boolean; isMet: boolean }>(
      `SELECT leader, coalesce(split_part(postmaster, ' ', 1) = term::text, false) AS "isKnown",
         postmaster <> ${lockedIn("term")} AS "lockGone",
         EXISTS (SELECT 1 FROM stoa_members WHERE url = $1
           AND (met = term OR now() - joined_at > interval '${MOST_SILENT_MS + 2 * leaseMs} milliseconds')) AS "isMet"
       FROM stoa_log_info`,
      [memberUrl],
    );
    if (found === undefined || found.leader === null || found.leader === memberUrl) return "nothing";
    // A server of a version that noted none of this.
    if (!found.isKnown) return "nothing";
    // Cut off from the log it shows what it has for as long as the members it knows let it: others have to wait.
    if (!found.isMet) return "may show on";
    // Its lock went with its Postgres. In any other way it has given it up, or said nothing for the time of a lease.
    return found.lockGone ? "may not have heard" : "nothing";
  }

  function holding(term: number, undisputed: Promise<void>): Leadership {
    const { promise: lost, resolve: lose } = Promise.withResolvers<string>();
    let unsureSince: number | null = null;
    let confirming: Promise<void> | null = null;
    let heardAt = confirmedAt;
    let peers: string[] | null = null;
    let steadySince: number | null = null;

    async function look(): Promise<void> {
      try {
        // Taken again after the connection broke; the old session may still hold it for the rest of its lease.
        const isNew = !holds;
        const locked = holds || (await lock());
        const askedAt = elapsed();
        const [row] = await ask<{ term: string; leader: string; peers: Peer[] }>(
          `SELECT term, leader, (${listPeers}) AS peers FROM stoa_log_info`,
          [memberUrl],
        );
        if (row === undefined || Number(row.term) !== term) return lose(`${row?.leader} leads in term ${row?.term}`);
        if (!locked || !holds) throw new Error("the lock is held by another session");
        if (isNew)
          await ask(`UPDATE stoa_log_info SET postmaster = ${lockedIn("term")} WHERE term = $1`, [String(term)]);
        confirmedAt = heardAt = askedAt;
        peers = row.peers.map(({ url }) => url);
        const isUnmet = row.peers.some(({ met }) => met !== term);
        // Only now that they are known here: whoever is met may lead without waiting.
        if (isUnmet) await ask("UPDATE stoa_members SET met = $1 WHERE url = ANY($2)", [String(term), arrayOf(peers)]);
        steadySince ??= askedAt;
        if (row.peers.some(({ isSilent }) => isSilent) && askedAt - steadySince > 2 * leaseMs) await partWithSilent();
        if (unsureSince !== null) log.info({ term }, "the commit log confirmed that this server leads");
        unsureSince = null;
      } catch (error) {
        if (unsureSince === null) log.warn({ reason: messageOf(error), term }, "it is not sure that this server leads");
        unsureSince ??= Date.now();
        // Whoever else lost the log with this server needs a moment to be heard of again.
        steadySince = null;
      }
    }

    /** In the session that holds the lock: whoever gets it later finds that it has to be met first. */
    async function partWithSilent(): Promise<void> {
      const gone = await ask<{ url: string }>(
        `UPDATE stoa_members SET met = NULL, joined_at = ${NEVER}
         WHERE role <> 'edge' AND url <> $1 AND ${isSilent} RETURNING url`,
        [memberUrl],
      );
      const urls = new Set(gone.map(({ url }) => url));
      peers = (peers ?? []).filter((url) => !urls.has(url));
      log.info({ gone: [...urls] }, "members that say nothing count as gone");
    }

    const confirm = () => {
      confirming ??= look().finally(() => {
        confirming = null;
      });
      return confirming;
    };
    void confirm();
    const stop = every({ timers, log }, leaseMs / BEATS_PER_LEASE, confirm);
    return {
      term,
      lost,
      undisputed,
      get unsureSince() {
        return unsureSince;
      },
      sureForMs: () => confirmedAt + leaseMs - elapsed(),
      peers: () => (elapsed() - heardAt > MOST_SILENT_MS ? null : peers),
      confirm,
      async resign() {
        stop();
        // Nobody has to wait for a server that says it is over.
        if (holds) {
          await connection
            .query("UPDATE stoa_log_info SET leader = NULL WHERE term = $1", [String(term)], RESIGN_WITHIN_MS)
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
