import type { Log } from "../log.ts";
import { every, type Timers } from "../timers.ts";
import type { Leadership } from "./commit-log.ts";
import { messageOf, PostgresConnection } from "./postgres-connection.ts";

/** Of the advisory lock; any number that nobody else takes. */
const LOCK = "7310594803";
const BEATS_PER_LEASE = 5;
const ANSWER_WITHIN_MS = 3_000;

type Deps = { log: Log; timers: Timers; leaseMs: number };

/**
 * Who holds the advisory lock leads. Postgres ends a session that says nothing for the time of the lease, and the lock
 * with it; a beat keeps it. A session that broke for another reason is made again: unless somebody else has led since,
 * which the term tells, the right is still ours. That nothing is written twice does not rest on any of this, but on the
 * positions of the log.
 */
export async function postgresLeadership(url: string, memberUrl: string, deps: Deps): Promise<Leadership | null> {
  const { log, timers, leaseMs } = deps;
  const greeting = [
    `SET idle_session_timeout = ${leaseMs}`,
    `SET idle_in_transaction_session_timeout = ${leaseMs}`,
    "SET tcp_user_timeout = 10000",
  ];
  let holds = false;
  const connection = new PostgresConnection(url, {
    greeting,
    onLost: () => {
      holds = false;
    },
  });
  const lock = async () => {
    const [row] = await connection.query<{ ok: boolean }>(
      `SELECT pg_try_advisory_lock(${LOCK}) AS ok`,
      [],
      ANSWER_WITHIN_MS,
    );
    holds = row?.ok === true;
    return holds;
  };
  try {
    if (!(await lock())) {
      connection.close();
      return null;
    }
    const [row] = await connection.query<{ term: string }>(
      "UPDATE stoa_log_info SET term = term + 1, leader = $1, led_since = now() RETURNING term",
      [memberUrl],
      ANSWER_WITHIN_MS,
    );
    return holding(Number(row?.term));
  } catch (error) {
    connection.close();
    throw error;
  }

  function holding(term: number): Leadership {
    const { promise: lost, resolve: lose } = Promise.withResolvers<string>();
    let unsureSince: number | null = null;
    let confirming: Promise<void> | null = null;

    async function look(): Promise<void> {
      try {
        const [row] = await connection.query<{ term: string; leader: string }>(
          "SELECT term, leader FROM stoa_log_info",
          [],
          ANSWER_WITHIN_MS,
        );
        if (Number(row?.term) !== term) return lose(`${row?.leader} leads in term ${row?.term}`);
        // Taken again after the connection broke; the old session may still hold it for the rest of its lease.
        if (!holds && !(await lock())) throw new Error("the lock is held by another session");
        if (unsureSince !== null) log.info({ term }, "the commit log confirmed that this server leads");
        unsureSince = null;
      } catch (error) {
        if (unsureSince === null) log.warn({ reason: messageOf(error), term }, "it is not sure that this server leads");
        unsureSince ??= Date.now();
      }
    }

    const confirm = () => {
      confirming ??= look().finally(() => {
        confirming = null;
      });
      return confirming;
    };
    const stop = every({ timers, log }, leaseMs / BEATS_PER_LEASE, confirm);
    return {
      term,
      lost,
      get unsureSince() {
        return unsureSince;
      },
      confirm,
      async resign() {
        stop();
        connection.close();
      },
    };
  }
}
