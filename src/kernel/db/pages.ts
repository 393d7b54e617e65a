import type { Tenant } from "../tenant.ts";
import type { Db } from "./open.ts";
import type { Unit, Writer } from "./writer.ts";

/** Rows that one step looks at: a few milliseconds at most. */
export const ROWS_PER_PAGE = 1_000;
/** Rows per unit of work: every other commit waits for a running unit of work. */
export const CHANGES_PER_UNIT = 20;
const PAUSE_MS = 3;

/** Lets requests and commits run between two steps of a long scan. */
export const pause = (): Promise<void> => Bun.sleep(PAUSE_MS);

/**
 * Reads page by page. `next` returns the rows after a position and the position of the last one, or null at the end.
 */
export async function* pages<Position, Row>(
  first: Position,
  next: (after: Position) => { until: Position; rows: Row[] } | null,
): AsyncGenerator<Row[]> {
  for (let after = first; ; ) {
    const page = next(after);
    if (!page) return;
    if (page.rows.length > 0) yield page.rows;
    after = page.until;
    await pause();
  }
}

/**
 * Scans a table by its row numbers, without an index. `read` has to write `+project_id = ?`: for a plain column, SQLite reads all
 * rows of the project for each page.
 */
export function rowPages<Row>({ $client: client }: Db, table: string, read: (after: number, until: number) => Row[]) {
  const bound = client.prepare<{ until: number | null }, [number, number]>(
    `SELECT max(id) AS until FROM (SELECT rowid AS id FROM ${table} WHERE rowid > ? ORDER BY rowid LIMIT ?)`,
  );
  return pages(0, (after) => {
    const until = bound.get(after, ROWS_PER_PAGE)?.until ?? null;
    return until === null ? null : { until, rows: read(after, until) };
  });
}

/** Scans the records of a tenant by their ids. */
export function tenantPages<Row>(
  { $client: client }: Db,
  table: string,
  { projectId, environment }: Tenant,
  read: (after: string, until: string) => Row[],
) {
  const bound = client.prepare<{ until: string | null }, [string, string, string, number]>(
    `SELECT max(id) AS until FROM
     (SELECT id FROM ${table} WHERE project_id = ? AND environment = ? AND id > ? ORDER BY id LIMIT ?)`,
  );
  return pages("", (after) => {
    const until = bound.get(projectId, environment, after, ROWS_PER_PAGE)?.until ?? null;
    return until === null ? null : { until, rows: read(after, until) };
  });
}

/** Reads the first rows until none are left. The caller changes each page so that its rows are not found again. */
export function* untilNoneLeft<Row>(read: () => Row[]): Generator<Row[]> {
  for (let rows = read(); rows.length > 0; rows = read()) yield rows;
}

/** Changes every row of the pages, in small units of work, so that no other commit waits for long. */
export async function changeEach<Row>(
  write: Writer["write"],
  rowsOf: AsyncIterable<Row[]> | Iterable<Row[]>,
  change: (unit: Unit, row: Row) => void,
): Promise<void> {
  for await (const rows of rowsOf) {
    for (let at = 0; at < rows.length; at += CHANGES_PER_UNIT) {
      await write((unit) => {
        for (const row of rows.slice(at, at + CHANGES_PER_UNIT)) change(unit, row);
      });
      await pause();
    }
  }
}
