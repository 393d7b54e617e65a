import type { ApiResponse } from "./request.ts";

/**
 * A paginated list. `for await (const room of stoa.rooms.list())` iterates over all items, page by page;
 * `await stoa.rooms.list({ limit: 10 })` returns the first page as an array.
 */
export class List<T> implements AsyncIterable<T>, PromiseLike<T[]> {
  readonly #request: (path: string) => Promise<ApiResponse<T[]>>;
  readonly #path: string;
  #first: Promise<ApiResponse<T[]>> | null = null;

  /** @internal */
  constructor(request: (path: string) => Promise<ApiResponse<T[]>>, path: string) {
    this.#request = request;
    this.#path = path;
  }

  /** Iterates over the pages, each an array. */
  async *pages(): AsyncGenerator<T[], void, void> {
    for (let path: string | null = this.#path; path !== null; ) {
      const { body, headers }: ApiResponse<T[]> = await this.#request(path);
      yield body;
      path = nextOf(headers.get("link"));
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    for await (const page of this.pages()) yield* page;
  }

  /** Loads all items into an array, or at most `limit`. */
  async toArray(limit = Number.POSITIVE_INFINITY): Promise<T[]> {
    const all: T[] = [];
    for await (const one of this) {
      if (all.length >= limit) break;
      all.push(one);
    }
    return all;
  }

  // biome-ignore lint/suspicious/noThenProperty: the first page is what most callers want, as an array
  then<A = T[], B = never>(
    resolved?: ((page: T[]) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#first ??= this.#request(this.#path);
    return this.#first.then(({ body }) => body).then(resolved, rejected);
  }
}

/** The path and query of the `rel="next"` link, because the client may use another address for the server. */
function nextOf(link: string | null): string | null {
  const [, address] = /<([^>]+)>\s*;\s*rel="?next"?/.exec(link ?? "") ?? [];
  if (address === undefined) return null;
  const { pathname, search } = new URL(address, "http://stoa.invalid");
  return pathname + search;
}

type Page<T> = { data: T[]; nextCursor: string | null };

/** Messages or events with cursors in both directions: `await` returns one page, iteration continues to the end. */
export class History<T, P extends Page<T>> implements AsyncIterable<T>, PromiseLike<P> {
  readonly #request: (cursorFields: object) => Promise<P>;
  readonly #direction: "before" | "after";

  /** @internal */
  constructor(request: (cursorFields: object) => Promise<P>, direction: "before" | "after") {
    this.#request = request;
    this.#direction = direction;
  }

  async *pages(): AsyncGenerator<P, void, void> {
    let cursorFields: object = {};
    for (;;) {
      const page = await this.#request(cursorFields);
      yield page;
      const cursor = this.#cursorAfter(page);
      if (cursor === null) return;
      cursorFields = { [this.#direction]: cursor };
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    for await (const { data } of this.pages()) yield* data;
  }

  // biome-ignore lint/suspicious/noThenProperty: one page is what most callers want
  then<A = P, B = never>(
    resolved?: ((page: P) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#request({}).then(resolved, rejected);
  }

  #cursorAfter(page: P): string | null {
    const more = "hasMore" in page ? page.hasMore === true : page.nextCursor !== null;
    if (!more || page.data.length === 0) return null;
    // A page requested with `after` ends at its other cursor.
    const previous = "previousCursor" in page ? (page.previousCursor as string | null) : null;
    return this.#direction === "after" ? (previous ?? page.nextCursor) : page.nextCursor;
  }
}
