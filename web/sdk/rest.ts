import { type ServerError, StoaError, serverError, unreachable } from "./errors.ts";

export type CallOptions = { signal?: AbortSignal; keepalive?: boolean };

/** Calls the REST routes that accept a client's token. */
export class Rest {
  readonly base: string;

  /** `endpoint` is the socket's address; the REST routes are on the same server. */
  constructor(
    endpoint: string,
    readonly token: () => string,
  ) {
    const url = new URL(endpoint.replace(/^ws/, "http"));
    this.base = url.origin;
  }

  async call<T>(method: string, path: string, body?: object, options: CallOptions = {}): Promise<T> {
    const { signal } = options;
    let response: Response;
    try {
      response = await fetch(this.base + path, {
        method,
        ...options,
        headers: {
          authorization: `Bearer ${this.token()}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (cause) {
      if (signal?.aborted) throw new StoaError("CANCELLED", "cancelled", "Cancelled.", { cause });
      throw unreachable(this.base, cause);
    }
    if (!response.ok) throw serverError((await response.json().catch(() => ({}))) as ServerError);
    return (response.status === 204 ? undefined : await response.json()) as T;
  }
}

/** A query string of the defined fields: `?a=1&b=2`. */
export function query(fields: Record<string, string | number | boolean | undefined>): string {
  const entries = Object.entries(fields).filter((entry) => entry[1] !== undefined);
  return entries.length === 0 ? "" : `?${new URLSearchParams(entries.map(([name, value]) => [name, String(value)]))}`;
}
