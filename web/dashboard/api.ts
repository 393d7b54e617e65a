import { type Treaty, treaty } from "@elysiajs/eden";
import type { App } from "../../src/app.ts";
import { accessToken, renewSession } from "./session.ts";

const routes = treaty<App>(location.origin, {
  parseDate: false,
  headers: () => (accessToken.value === null ? {} : { authorization: `Bearer ${accessToken.value}` }),
  // When the access token has expired, it is renewed with the refresh cookie and the request is repeated.
  fetcher: (async (input: RequestInfo | URL, init?: RequestInit) => {
    const response = await fetch(input, init);
    if (response.status !== 401 || accessToken.value === null || !(await renewSession())) return response;
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${accessToken.value}`);
    return fetch(input, { ...init, headers });
  }) as typeof fetch,
});

/** The typed client of the server's routes. Dates remain strings. */
export const api = encodingPathValues(routes);

const METHODS: ReadonlySet<unknown> = new Set(["get", "post", "put", "patch", "delete"]);

/** Eden inserts values into paths as they are. An identity such as `../..` or `a?b` would lead the request to another route. */
function encodingPathValues<T extends object>(routes: T, name?: string | symbol): T {
  return new Proxy(routes, {
    get: (target, next) => encodingPathValues(Reflect.get(target, next) as object, next),
    apply(target, self, values: object[]) {
      const call = target as unknown as (...values: object[]) => object;
      if (METHODS.has(name)) return Reflect.apply(call, self, values);
      const encoded = Object.entries(values[0] ?? {}).map(([key, value]) => [key, pathValue(String(value))]);
      return encodingPathValues(Reflect.apply(call, self, [Object.fromEntries(encoded)]));
    },
  });
}

/** URLs resolve `.` and `..` even when they are encoded. No record has such a name, and none begins with a space. */
const pathValue = (value: string): string => encodeURIComponent(/^\.\.?$/.test(value) ? ` ${value}` : value);

/** A failed request with the server's explanation. */
export class ApiFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly requestId: string | null,
    readonly details: readonly { field: string; message: string }[],
  ) {
    super(message);
    this.name = "ApiFailure";
  }
}

type Envelope = { code?: string; message?: string; requestId?: string; details?: { field: string; message: string }[] };
type Answer<R extends Record<number, unknown>> = Promise<Treaty.TreatyResponse<R>>;
type Data<R extends Record<number, unknown>> = NonNullable<Treaty.TreatyResponse<R>["data"]>;

/** Resolves with the data of a response; throws an ApiFailure otherwise. */
export async function request<R extends Record<number, unknown>>(answer: Answer<R>): Promise<Data<R>> {
  return (await settle(answer)).data;
}

/** Resolves with one page of a list and the cursor of the next one. */
export async function requestPage<R extends Record<number, unknown>>(
  answer: Answer<R>,
): Promise<{ rows: Data<R>; next: string | undefined }> {
  const { data, response } = await settle(answer);
  const next = /<([^>]*)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1];
  const cursor = next === undefined ? null : new URL(next, location.origin).searchParams.get("cursor");
  return { rows: data, next: cursor ?? undefined };
}

async function settle<R extends Record<number, unknown>>(
  answer: Answer<R>,
): Promise<{ data: Data<R>; response: Response }> {
  const settled = await answer.catch(() => null);
  // For a request that did not reach the server, Eden returns a 503 without a response.
  if (!settled?.response) throw new ApiFailure(0, "UNREACHABLE", "The server cannot be reached.", null, []);
  const { data, error, status, response } = settled;
  if (error) {
    const {
      code = `HTTP_${status}`,
      message = "The request failed.",
      requestId,
      details = [],
    } = (error as { value?: Envelope }).value ?? {};
    throw new ApiFailure(status, code, message, requestId ?? null, details);
  }
  return { data: data as Data<R>, response };
}
