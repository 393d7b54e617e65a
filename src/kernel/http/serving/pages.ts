import { t } from "elysia";
import { decodeCursor, encodeCursor, type Position } from "../../cursor.ts";
import { queryInteger } from "../schema.ts";

export const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 200;
/** Sorts after every id: where a list that shows the newest first begins. */
export const NEWEST = "~";

/** Query of every list route; spread it into a route's own query schema. */
export const pageQuery = {
  limit: t.Optional(queryInteger({ min: 1, max: MAX_LIMIT })),
  cursor: t.Optional(t.String({ maxLength: 256 })),
};

export type PageAsked = { limit?: number; cursor?: string };

type PageContext = {
  request: Request;
  set: { headers: Record<string, string | number | string[] | undefined> };
};

/**
 * One page of a list. `read` is asked for one row more than shown, which tells whether a next page exists; its
 * address is then given by `link` (RFC 8288).
 */
export function page<Row, Shown>(
  context: PageContext,
  asked: PageAsked,
  list: {
    name: string;
    shape: ("string" | "number")[];
    read: (after: Position | null, limit: number) => Row[];
    position: (row: Row) => Position;
    show: (row: Row) => Shown;
    defaultLimit?: number;
    /** Of the answer as JSON: a page of long rows ends before its limit, after one row at the least. */
    maxBytes?: number;
  },
): Shown[] {
  const limit = asked.limit ?? list.defaultLimit ?? DEFAULT_LIMIT;
  const after = asked.cursor === undefined ? null : decodeCursor(list.name, asked.cursor, list.shape);
  const rows = list.read(after, limit + 1);
  const shown = withinBytes(rows.slice(0, limit).map(list.show), list.maxBytes);
  const last = rows[shown.length - 1];
  if (rows.length > shown.length && last !== undefined) {
    const url = new URL(context.request.url);
    url.searchParams.set("cursor", encodeCursor(list.name, list.position(last)));
    context.set.headers.link = `<${url.pathname}${url.search}>; rel="next"`;
  }
  return shown;
}

function withinBytes<Shown>(shown: Shown[], maxBytes: number | undefined): Shown[] {
  if (maxBytes === undefined) return shown;
  let bytes = 0;
  const end = shown.findIndex((row, index) => {
    bytes += Buffer.byteLength(JSON.stringify(row)) + 1;
    return bytes > maxBytes && index > 0;
  });
  return end === -1 ? shown : shown.slice(0, end);
}
