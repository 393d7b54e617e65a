import type { Database } from "bun:sqlite";
import { every } from "../time/timers.ts";

const POLL_EVERY_MS = 250;

/**
 * Calls `onCommit` when another process has written to the database, such as the command line next to a running server:
 * caches may be wrong from then on, for instance about a revoked key. A poll costs a few microseconds.
 */
export function watchForeignCommits(
  client: Database,
  deps: Parameters<typeof every>[0],
  onCommit: () => void,
): () => void {
  const read = client.query<{ data_version: number }, []>("PRAGMA data_version");
  let seen = read.get()?.data_version;
  return every(deps, POLL_EVERY_MS, () => {
    const version = read.get()?.data_version;
    if (version === seen) return;
    seen = version;
    onCommit();
  });
}
