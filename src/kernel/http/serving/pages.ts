import { t } from "elysia";
import { decodeCursor, encodeCursor, type Position } from "../../cursor.ts";
import { queryInteger } from "../schema.ts";

export const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 200;
/** Sorts after every id: where a list that shows the newest first begins. */
export const NEWEST = "~";

/** Of a list whose pages may be longer than those of others; what comes without `limit` can be asked for by it as well. */
export const pageQueryUpTo = (max: number) => ({
  limit: t.Optional(queryInteger({ min: 1, max })),
  cursor: t.Optional(t.String({ maxLength: 256 })),
});

/** Query of every list route; spread it into a route's own query schema. */
export const pageQuery = pageQueryUpTo(MAX_LIMIT);

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
  const { shown, last, isMore } = readPage(list, after, limit);
  if (isMore && last !== undefined) {
    const url = new URL(context.request.url);
    url.searchParams.set("cursor", encodeCursor(list.name, list.position(last)));
    context.set.headers.link = `<${url.pathname}${url.search}>; rel="next"`;
  }
  return shown;
}

type Reading<Row, Shown> = Parameters<typeof page<Row, Shown>>[2];

/** Where bytes are counted, a few rows are read at a time: what would be left out is not even looked up. */
function readPage<Row, Shown>(list: Reading<Row, Shown>, after: Position | null, limit: number) {
  const { maxBytes = Number.POSITIVE_INFINITY, read, show, position } = list;
  const atOnce = list.maxBytes === undefined ? limit : ROWS_AT_ONCE;
  const shown: Shown[] = [];
  let last: Row | undefined;
  let bytes = 0;
  for (;;) {
    const wanted = Math.min(atOnce, limit - shown.length);
    const rows = read(last === undefined ? after : position(last), wanted + 1);
    for (const row of rows.slice(0, wanted)) {
      const one = show(row);
      if (list.maxBytes !== undefined) bytes += bytesOf(one);
      if (bytes > maxBytes && last !== undefined) return { shown, last, isMore: true };
      shown.push(one);
      last = row;
    }
    const isMore = rows.length > wanted;
    if (!isMore || shown.length >= limit) return { shown, last, isMore };
  }
}

const ROWS_AT_ONCE = 100;
const BYTES_OF_A_FIELD = 32;
/** What JSON writes as more than one character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are among them.
const ESCAPED = /["\\\u0000-\u001f]/;

/** As JSON, without making it of what it would copy: to do so takes as long as the whole answer. */
function bytesOf(value: unknown): number {
  if (typeof value === "string") return Buffer.byteLength(ESCAPED.test(value) ? JSON.stringify(value) : value) + 2;
  if (typeof value !== "object" || value === null) return BYTES_OF_A_FIELD;
  return Object.values(value).reduce((sum: number, one) => sum + BYTES_OF_A_FIELD + bytesOf(one), 2);
}
