import type { Position } from "../../../kernel/cursor.ts";

/** Pages of a list that lives in memory, in the order of user ids. */
export function byUser<Row extends { userId: string }>(name: string, rows: Row[]) {
  const sorted = rows.sort((a, b) => (a.userId < b.userId ? -1 : 1));
  return {
    name,
    shape: ["string" as const],
    read: (after: Position | null, limit: number) =>
      sorted.filter(({ userId }) => after === null || userId > String(after[0])).slice(0, limit),
    position: (row: Row) => [row.userId],
    show: (row: Row) => row,
  };
}
