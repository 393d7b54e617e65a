import type { QueueTraces, WalkedTable } from "./store/queue-traces.store.ts";

/** Rows per step of a walk: a few milliseconds at most, and nobody's commit waits for more than one of them. */
export const ROWS_AT_ONCE = 100;
export const CONVERSATIONS_AT_ONCE = 100;
/** Of those that are only looked at. */
export const EVENTS_AT_ONCE = 1_000;
/** Rows per unit of work: everybody's sends wait for one. */
export const CHANGES_AT_ONCE = 20;

const PAUSE_MS = 3;

/** Everybody else's turn. */
export const pause = (): Promise<void> => Bun.sleep(PAUSE_MS);

/** Goes through a table by its row numbers, from the first to the last that was there when it came by. */
export async function* walk<Row>(
  queues: QueueTraces,
  table: WalkedTable,
  read: (after: number, until: number) => Row[],
): AsyncGenerator<Row[]> {
  for (let after = 0; ; ) {
    const until = queues.bound(table, after, EVENTS_AT_ONCE);
    if (until === null) return;
    const rows = read(after, until);
    if (rows.length > 0) yield rows;
    after = until;
    await pause();
  }
}
