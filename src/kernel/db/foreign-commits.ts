import type { Database } from "bun:sqlite";
import { every } from "../timers.ts";

const LOOK_EVERY_MS = 250;

/**
 * Tells when another process has written to the database, as the command line does beside a running server: what is
 * kept in memory may be wrong from then on, such as a key that was revoked. Looking costs a few microseconds.
 */
export function watchForeignCommits(
  client: Database,
  deps: Parameters<typeof every>[0],
  onCommit: () => void,
): () => void {
  const read = client.query<{ data_version: number }, []>("PRAGMA data_version");
  let seen = read.get()?.data_version;
  return every(deps, LOOK_EVERY_MS, () => {
    const version = read.get()?.data_version;
    if (version === seen) return;
    seen = version;
    onCommit();
  });
}
