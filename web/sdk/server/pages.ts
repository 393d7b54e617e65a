import type { Answer } from "./request.ts";

/**
 * A list of the server: `for await (const room of stoa.rooms.list())` walks all of it, page by page, and
 * `await stoa.rooms.list({ limit: 10 })` is its first page as an array.
 */
export class List<T> implements AsyncIterable<T>, PromiseLike<T[]> {
  readonly #ask: (path: string) => Promise<Answer<T[]>>;
  readonly #path: string;
  #first: Promise<Answer<T[]>> | null = null;

  /** @internal */
  constructor(ask: (path: string) => Promise<Answer<T[]>>, path: string) {
    this.#ask = ask;
    this.#path = path;
  }

  /** The pages themselves, each an array. */
  async *pages(): AsyncGenerator<T[], void, void> {
    for (let path: string | null = this.#path; path !== null; ) {
      const { body, headers }: Answer<T[]> = await this.#ask(path);
      yield body;
      path = nextOf(headers.get("link"));
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, void> {
    for await (const page of this.pages()) yield* page;
  }

  /** Everything, in memory; `most` bounds it. */
  async toArray(most = Number.POSITIVE_INFINITY): Promise<T[]> {
    const all: T[] = [];
    for await (const one of this) {
      if (all.length >= most) break;
      all.push(one);
    }
    return all;
  }

  // biome-ignore lint/suspicious/noThenProperty: the first page is what most callers want, as an array
  then<A = T[], B = never>(
    resolved?: ((page: T[]) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#first ??= this.#ask(this.#path);
    return this.#first.then(({ body }) => body).then(resolved, rejected);
  }
}

/** Of `link: <https://…?cursor=…>; rel="next"` the part that this client appends to the address it was given. */
function nextOf(link: string | null): string | null {
  const [, address] = /<([^>]+)>\s*;\s*rel="?next"?/.exec(link ?? "") ?? [];
  if (address === undefined) return null;
  const { pathname, search } = new URL(address, "http://stoa.invalid");
  return pathname + search;
}

type Page<T> = { data: T[]; nextCursor: string | null };

/** Messages or events with cursors in both directions: awaited it is one page, iterated it walks on to the end. */
export class History<T, P extends Page<T>> implements AsyncIterable<T>, PromiseLike<P> {
  readonly #ask: (change: object) => Promise<P>;
  readonly #onward: "before" | "after";

  /** @internal */
  constructor(ask: (change: object) => Promise<P>, onward: "before" | "after") {
    this.#ask = ask;
    this.#onward = onward;
  }

  async *pages(): AsyncGenerator<P, void, void> {
    let change: object = {};
    for (;;) {
      const page = await this.#ask(change);
      yield page;
      const cursor = this.#cursorAfter(page);
      if (cursor === null) return;
      change = { [this.#onward]: cursor };
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
    return this.#ask({}).then(resolved, rejected);
  }

  #cursorAfter(page: P): string | null {
    const more = "hasMore" in page ? page.hasMore === true : page.nextCursor !== null;
    if (!more || page.data.length === 0) return null;
    // A page walked with `after` names where it ends in the other cursor.
    const previous = "previousCursor" in page ? (page.previousCursor as string | null) : null;
    return this.#onward === "after" ? (previous ?? page.nextCursor) : page.nextCursor;
  }
}
