import { type Treaty, treaty } from "@elysiajs/eden";
import type { App } from "../../src/app.ts";
import { accessToken, renewSession } from "./session.ts";

/** The server's own types, route by route. Dates stay text, as the wire has them. */
export const api = treaty<App>(location.origin, {
  parseDate: false,
  headers: () => (accessToken.value === null ? {} : { authorization: `Bearer ${accessToken.value}` }),
  // An access token lives an hour: one that has expired is renewed by the cookie, and the request sent once more.
  fetcher: (async (input: RequestInfo | URL, init?: RequestInit) => {
    const response = await fetch(input, init);
    if (response.status !== 401 || accessToken.value === null || !(await renewSession())) return response;
    const headers = new Headers(init?.headers);
    headers.set("authorization", `Bearer ${accessToken.value}`);
    return fetch(input, { ...init, headers });
  }) as typeof fetch,
});

/** A refused request, as the server explains it. */
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

/** The data of an answer; throws what the server said otherwise. */
export async function ask<R extends Record<number, unknown>>(
  answer: Promise<Treaty.TreatyResponse<R>>,
): Promise<NonNullable<Treaty.TreatyResponse<R>["data"]>> {
  const { data, error, status } = await answer.catch(() => ({ data: null, error: null, status: 0 }));
  if (status === 0) throw new ApiFailure(0, "UNREACHABLE", "The server cannot be reached.", null, []);
  if (error) {
    const {
      code = `HTTP_${status}`,
      message = "The request failed.",
      requestId,
      details = [],
    } = (error as { value?: Envelope }).value ?? {};
    throw new ApiFailure(status, code, message, requestId ?? null, details);
  }
  return data as NonNullable<Treaty.TreatyResponse<R>["data"]>;
}
