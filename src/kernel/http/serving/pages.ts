import { t } from "elysia";
import { type CooperativeTask, runCooperatively } from "../../scheduling/cooperative-task.ts";
import { decodeCursor, encodeCursor, type Position } from "../cursor.ts";
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

export type PageRequest = { limit?: number; cursor?: string };

type PageContext = {
  request: Request;
  set: { headers: Record<string, string | number | string[] | undefined> };
};

type List<Row, Shown> = {
  name: string;
  shape: ("string" | "number")[];
  read: (after: Position | null, limit: number) => Row[];
  position: (row: Row) => Position;
  show: (row: Row) => Shown;
  defaultLimit?: number;
};

/**
 * One page of a list. `read` is asked for one row more than shown, which tells whether a next page exists; its
 * address is then given by `link` (RFC 8288).
 */
export function page<Row, Shown>(context: PageContext, asked: PageRequest, list: List<Row, Shown>): Shown[] {
  const { after, limit } = begin(asked, list);
  const rows = list.read(after, limit + 1);
  const shown = rows.slice(0, limit);
  if (rows.length > limit) linkToNext(context, list, shown.at(-1));
  return shown.map(list.show);
}

/**
 * The same of rows that may be long: it ends before its limit when it has `maxBytes` as JSON, after one row at the least,
 * and others are heard while it is read.
 */
export async function longPage<Row, Shown>(
  context: PageContext,
  asked: PageRequest,
  list: LongList<Row, Shown>,
): Promise<Shown[]> {
  const { after, limit } = begin(asked, list);
  const { shown, last, isMore } = await runCooperatively(readLong(list, after, limit, bytesOf));
  if (isMore) linkToNext(context, list, last);
  return shown;
}

/**
 * The same as JSON that is made row by row: of a megabyte at once it takes as long as all the reading. It is typed as what
 * it says, which is what the route's schema asks for.
 */
export async function longPageAsJson<Row, Shown extends object>(
  context: PageContext,
  asked: PageRequest,
  list: LongList<Row, Shown>,
): Promise<Shown[]> {
  const { after, limit } = begin(asked, list);
  const texts = { ...list, show: (row: Row) => JSON.stringify(list.show(row)) };
  const { shown, last, isMore, bytes } = await runCooperatively(
    readLong(texts, after, limit, (text) => Buffer.byteLength(text) + 1),
  );
  if (isMore) linkToNext(context, list, last);
  context.set.headers["content-type"] = "application/json;charset=utf-8";
  list.onBytes?.(bytes);
  return `[${shown.join(",")}]` as unknown as Shown[];
}

/** `onBytes` is told how long it came to be. */
type LongList<Row, Shown> = List<Row, Shown> & { maxBytes: number; onBytes?: (bytes: number) => void };

function begin<Row, Shown>(asked: PageRequest, list: List<Row, Shown>) {
  const limit = asked.limit ?? list.defaultLimit ?? DEFAULT_LIMIT;
  const after = asked.cursor === undefined ? null : decodeCursor(list.name, asked.cursor, list.shape);
  return { after, limit };
}

function linkToNext<Row, Shown>(context: PageContext, list: List<Row, Shown>, last: Row | undefined): void {
  if (last === undefined) return;
  const url = new URL(context.request.url);
  url.searchParams.set("cursor", encodeCursor(list.name, list.position(last)));
  context.set.headers.link = `<${url.pathname}${url.search}>; rel="next"`;
}

type Read<Row, Shown> = { shown: Shown[]; last: Row | undefined; isMore: boolean; bytes: number };

/** A few rows at a time: what would be left out is not even looked up. */
function* readLong<Row, Shown>(
  { maxBytes, read, show, position }: LongList<Row, Shown>,
  after: Position | null,
  limit: number,
  sizeOf: (one: Shown) => number,
): CooperativeTask<Read<Row, Shown>> {
  const shown: Shown[] = [];
  let last: Row | undefined;
  let bytes = 0;
  for (;;) {
    const wanted = Math.min(ROWS_AT_ONCE, limit - shown.length);
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

const ROWS_AT_ONCE = 50;
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
