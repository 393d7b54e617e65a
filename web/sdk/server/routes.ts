import { History, List } from "./pages.ts";
import { type CallOptions, HttpClient, queryOf, type StoaOptions } from "./request.ts";

type Page<T> = { data: T[]; nextCursor: string | null };
type ItemOf<P> = P extends Page<infer T> ? T : never;

/** The base of the generated API methods. */
export class Routes {
  readonly #transport: HttpClient;

  constructor(options: StoaOptions) {
    this.#transport = new HttpClient(options);
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
    return (await this.#transport.request<T>(method, path + queryOf(query), body, options)).body;
  }

  /** @internal */
  protected list<T>(path: string, query: object): List<T> {
    return new List<T>((at) => this.#transport.request("GET", at), path + queryOf(query));
  }

  /** @internal */
  protected history<P extends Page<ItemOf<P>>>(path: string, query: object): History<ItemOf<P>, P> {
    // Messages are listed backwards by default; a log of events is listed forwards.
    const direction = "after" in query || path.endsWith("/events") ? "after" : "before";
    return new History<ItemOf<P>, P>(
      async (cursorFields) =>
        (await this.#transport.request<P>("GET", path + queryOf({ ...query, ...cursorFields }))).body,
      direction,
    );
  }
}
