import { t } from "elysia";
import { type CooperativeTask, runCooperatively } from "../../scheduling/cooperative-task.ts";
import { decodeCursor, encodeCursor, type Position } from "../cursor.ts";
import { queryInteger } from "../schema.ts";

const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 200;
/** Sorts after every id: the start of a list with the newest first. */
export const NEWEST = "~";
/** The position at which a list sorted by id begins, newest first. */
export const NEWEST_BY_ID: [string] = [NEWEST];
export const NEWEST_BY_NUMBER: [number] = [Number.MAX_SAFE_INTEGER];
export const NEWEST_BY_TIME: [number, string] = [Number.MAX_SAFE_INTEGER, ""];

/** The query of a list with its own maximum; the default page size must be a valid `limit` too. */
export const pageQueryUpTo = (max: number) => ({
  limit: t.Optional(queryInteger({ min: 1, max })),
  cursor: t.Optional(t.String({ maxLength: 256 })),
});

/** The query of every list route, to be spread into its query schema. */
export const pageQuery = pageQueryUpTo(MAX_LIMIT);

export type PageRequest = { limit?: number; cursor?: string };

type PageContext = {
  request: Request;
  set: { headers: Record<string, string | number | string[] | undefined> };
};

type List<P extends Position, Row, Shown> = {
  name: string;
  start: P;
  read: (after: P, limit: number) => Row[];
  position: (row: Row) => P;
  show: (row: Row) => Shown;
  defaultLimit?: number;
};

/**
 * One page of a list. `read` is asked for one row more than is shown, to find out whether there is a next page; the
 * header `link` (RFC 8288) then has its URL.
 */
export function page<P extends Position, Row, Shown>(
  context: PageContext,
  requested: PageRequest,
  list: List<P, Row, Shown>,
): Shown[] {
  const { after, limit } = begin(requested, list);
  const rows = list.read(after, limit + 1);
  const shown = rows.slice(0, limit);
  if (rows.length > limit) linkToNext(context, list, shown.at(-1));
  return shown.map(list.show);
}

/**
 * A page of rows that may be long: it ends before its limit at `maxBytes` of JSON, but after one row at least, and does
 * not block the event loop while reading.
 */
export async function longPage<P extends Position, Row, Shown>(
  context: PageContext,
  requested: PageRequest,
  list: LongList<P, Row, Shown>,
): Promise<Shown[]> {
  const { after, limit } = begin(requested, list);
  const { shown, last, isMore } = await runCooperatively(readLong(list, after, limit, bytesOf));
  if (isMore) linkToNext(context, list, last);
  return shown;
}

/**
 * A long page whose JSON is written row by row, because writing a megabyte in one go takes as long as reading it. The
 * text is typed as its content, because the route's schema requires it.
 */
export async function longPageAsJson<P extends Position, Row, Shown extends object>(
  context: PageContext,
  requested: PageRequest,
  list: LongList<P, Row, Shown>,
): Promise<Shown[]> {
  const { after, limit } = begin(requested, list);
  const texts = { ...list, show: (row: Row) => JSON.stringify(list.show(row)) };
  const { shown, last, isMore, bytes } = await runCooperatively(
    readLong(texts, after, limit, (text) => Buffer.byteLength(text) + 1),
  );
  if (isMore) linkToNext(context, list, last);
  context.set.headers["content-type"] = "application/json;charset=utf-8";
  list.onBytes?.(bytes);
  return `[${shown.join(",")}]` as unknown as Shown[];
}

/** `onBytes` gets the size of the page. */
type LongList<P extends Position, Row, Shown> = List<P, Row, Shown> & {
  maxBytes: number;
  onBytes?: (bytes: number) => void;
};

function begin<P extends Position, Row, Shown>(requested: PageRequest, list: List<P, Row, Shown>) {
  const limit = requested.limit ?? list.defaultLimit ?? DEFAULT_LIMIT;
  const after = requested.cursor === undefined ? list.start : decodeCursor(list.name, requested.cursor, list.start);
  return { after, limit };
}

function linkToNext<P extends Position, Row, Shown>(
  context: PageContext,
  list: List<P, Row, Shown>,
  last: Row | undefined,
): void {
  if (last === undefined) return;
  const url = new URL(context.request.url);
  url.searchParams.set("cursor", encodeCursor(list.name, list.position(last)));
  context.set.headers.link = `<${url.pathname}${url.search}>; rel="next"`;
}

type Read<Row, Shown> = { shown: Shown[]; last: Row | undefined; isMore: boolean; bytes: number };

/** Reads a few rows at a time, so that rows beyond the page are not read. */
function* readLong<P extends Position, Row, Shown>(
  { maxBytes, read, show, position }: LongList<P, Row, Shown>,
  after: P,
  limit: number,
  sizeOf: (one: Shown) => number,
): CooperativeTask<Read<Row, Shown>> {
  const shown: Shown[] = [];
  let last: Row | undefined;
  let bytes = 0;
  for (;;) {
    const wanted = Math.min(ROWS_PER_STEP, limit - shown.length);
    const rows = read(last === undefined ? after : position(last), wanted + 1);
    for (const row of rows.slice(0, wanted)) {
      const one = show(row);
      const size = sizeOf(one);
      if (bytes + size > maxBytes && last !== undefined) return { shown, last, isMore: true, bytes };
      bytes += size;
      shown.push(one);
      last = row;
    }
    const isMore = rows.length > wanted;
    if (!isMore || shown.length >= limit) return { shown, last, isMore, bytes };
    yield;
  }
}

const ROWS_PER_STEP = 50;
const BYTES_OF_A_FIELD = 32;
/** Characters that JSON escapes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are escaped.
const ESCAPED = /["\\\u0000-\u001f]/;

/** Estimates the size as JSON without serializing, which would take as long as the whole response. */
function bytesOf(value: unknown): number {
  if (typeof value === "string") return Buffer.byteLength(ESCAPED.test(value) ? JSON.stringify(value) : value) + 2;
  if (typeof value !== "object" || value === null) return BYTES_OF_A_FIELD;
  return Object.values(value).reduce((sum: number, one) => sum + BYTES_OF_A_FIELD + bytesOf(one), 2);
}
