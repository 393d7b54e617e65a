import { ApiError } from "../../protocol/errors.ts";
import { type CommitLog, Overtaken } from "./commit-log.ts";
import type { SplitClient } from "./split-client.ts";

/** How the writer commits when several servers share a log: first there, then in the local file. */
export type LoggedCommits = {
  begin(): void;
  /** Runs units in the transaction that has begun. */
  run(units: () => void): void;
  /** Durable when it resolves. */
  append(): Promise<void>;
  /** Visible when it returns. */
  commit(): void;
  rollback(): void;
  /** Whether it is about the commit as a whole, and may be told to everybody who shared it. */
  isOwn(error: unknown): boolean;
  /** Whether it was the log that did not answer. */
  isAway(error: unknown): boolean;
  /** The last position that is in the local file. */
  readonly position: number;
};

export type LoggedCommitsOptions = {
  client: SplitClient;
  log: Pick<CommitLog, "append">;
  /** This server must lead no longer: what it would acknowledge from now on might be lost. */
  onLost: (reason: string) => void;
};

type Position = { position: number };

/**
 * Append, then COMMIT: a server that dies between the two finds its own commit in the log when it comes back. One that
 * was overtaken has acknowledged nothing that is not in the log, rolls back, and makes no other attempt.
 */
export function loggedCommits({ client, log, onLost }: LoggedCommitsOptions): LoggedCommits {
  const { recording } = client;
  const advance = recording.prepare("UPDATE log_position SET position = ? WHERE id = 1");
  const changes = recording.prepare("SELECT total_changes() AS total");
  const totalChanges = () => (changes.get() as { total: number }).total;
  const start = recording.prepare("SELECT position FROM log_position").get() as Position | null;
  if (start === null) throw new Error("this database belongs to no commit log");
  let { position } = start;
  let before = 0;
  let changed = false;
  let lost: ApiError | null = null;
  let away: ApiError | null = null;

  function lose(reason: string): ApiError {
    lost = new ApiError("SVC_STANDBY", undefined, { retryAfterSeconds: 1 });
    onLost(reason);
    return lost;
  }

  async function append(record: Uint8Array): Promise<void> {
    try {
      await log.append(position + 1, { kind: "changes", changes: record });
    } catch (error) {
      if (error instanceof Overtaken) throw lose(error.message);
      away = new ApiError("SVC_COMMIT_LOG_UNAVAILABLE", undefined, { retryAfterSeconds: 5 });
      away.cause = error;
      throw away;
    }
  }

  return {
    begin() {
      if (lost !== null) throw lost;
      recording.begin();
      before = totalChanges();
    },
    run(units) {
      client.inUnits = true;
      try {
        units();
      } finally {
        client.inUnits = false;
      }
    },
    async append() {
      changed = totalChanges() !== before;
      if (!changed) return;
      advance.run(position + 1);
      await append(recording.changes());
    },
    commit() {
      if (!changed) return recording.commit();
      try {
        recording.commit();
      } catch (error) {
        // It is in the log, and will come from there once the local disk takes it.
        throw lose(`the local database did not take a commit: ${error instanceof Error ? error.message : error}`);
      }
      position++;
    },
    rollback: () => recording.rollback(),
    isOwn: (error) => error === lost || error === away || (error as { code?: string }).code === "ERR_SQLITE_ERROR",
    isAway: (error) => error === away,
    get position() {
      return position;
    },
  };
}
