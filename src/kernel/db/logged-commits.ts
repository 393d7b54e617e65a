import { ApiError } from "../../protocol/errors.ts";
import { messageOf } from "../error-message.ts";
import { type CommitLog, PositionTaken } from "./commit-log.ts";
import type { SplitClient } from "./split-client.ts";

/** How the writer commits when several servers share a commit log: first to the log, then to the local file. */
export type LoggedCommits = {
  begin(): void;
  run(units: () => void): void;
  /** The record is durable when the promise resolves. */
  append(): Promise<void>;
  /** The commit is visible when the call returns. */
  commit(): void;
  rollback(): void;
  /** Whether the error concerns the whole commit, so that all of its callers may see it. */
  concernsWholeCommit(error: unknown): boolean;
  isLogUnavailable(error: unknown): boolean;
  readonly position: number;
};

type LoggedCommitsOptions = {
  client: SplitClient;
  log: Pick<CommitLog, "append">;
  /** This server must stop leading: commits that it acknowledges from now on could be lost. */
  onLost: (reason: string) => void;
};

type Position = { position: number };

/**
 * Appends to the log, then commits locally: a server that fails in between finds its own commit in the log after its
 * restart. A server that another one has replaced as leader has only acknowledged commits that are in the log; it rolls
 * back and stops leading.
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
  let unavailable: ApiError | null = null;

  function lose(reason: string): ApiError {
    lost = new ApiError("SVC_STANDBY", undefined, { retryAfterSeconds: 1 });
    onLost(reason);
    return lost;
  }

  async function append(record: Uint8Array): Promise<void> {
    try {
      await log.append(position + 1, { kind: "changes", changes: record });
    } catch (error) {
      if (error instanceof PositionTaken) throw lose(error.message);
      unavailable = new ApiError("SVC_COMMIT_LOG_UNAVAILABLE", undefined, { retryAfterSeconds: 5 });
      unavailable.cause = error;
      throw unavailable;
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
        // The log has the commit; after a restart the commit is applied to the local file.
        throw lose(`the local database failed to commit: ${messageOf(error)}`);
      }
      position++;
    },
    rollback: () => recording.rollback(),
    concernsWholeCommit: (error) =>
      error === lost || error === unavailable || (error as { code?: string }).code === "ERR_SQLITE_ERROR",
    isLogUnavailable: (error) => error === unavailable,
    get position() {
      return position;
    },
  };
}
