import { History, List } from "./pages.ts";
import { type CallOptions, queryOf, type StoaOptions, Transport } from "./request.ts";

type Page<T> = { data: T[]; nextCursor: string | null };
type ItemOf<P> = P extends Page<infer T> ? T : never;

/** What every method of the API is made from. */
export class Routes {
  readonly #transport: Transport;

  constructor(options: StoaOptions) {
    this.#transport = new Transport(options);
  }

  /** @internal */
  protected seg(part: string): string {
    return encodeURIComponent(part);
  }

  /** @internal */
  protected async call<T>(
    method: string,
    path: string,
    body?: object,
    query: object = {},
    options: CallOptions = {},
  ): Promise<T> {
    return (await this.#transport.ask<T>(method, path + queryOf(query), body, options)).body;
  }

  /** @internal */
  protected list<T>(path: string, query: object): List<T> {
    return new List<T>((at) => this.#transport.ask("GET", at), path + queryOf(query));
  }

  /** @internal */
  protected history<P extends Page<ItemOf<P>>>(path: string, query: object): History<ItemOf<P>, P> {
    // Messages go back in time unless asked otherwise; a log of events goes forward.
    const onward = "after" in query || path.endsWith("/events") ? "after" : "before";
    return new History<ItemOf<P>, P>(
      async (change) => (await this.#transport.ask<P>("GET", path + queryOf({ ...query, ...change }))).body,
      onward,
    );
  }
}
