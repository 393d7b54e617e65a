type Headers_ = Record<string, string | number | string[] | undefined>;

const EXPOSED =
  "x-request-id, link, location, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, idempotent-replayed, " +
  "content-disposition, content-range, accept-ranges, etag";

/**
 * Any origin may read an answer: no cookie authorises anything outside /v1/auth, and whether an origin may *use* a
 * project is judged with its credential. A refused page can thus read why.
 */
export function corsHeaders(headers: Headers_, origin: string): void {
  headers["access-control-allow-origin"] = origin;
  headers["access-control-expose-headers"] = EXPOSED;
  headers.vary = "origin";
}

export function isPreflight(request: Request): boolean {
  return request.method === "OPTIONS" && request.headers.has("access-control-request-method");
}

export function preflight(request: Request, requestId: string, origin: string): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "x-request-id": requestId,
      "access-control-allow-origin": origin,
      "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
      "access-control-allow-headers":
        request.headers.get("access-control-request-headers") ?? "authorization, content-type, idempotency-key",
      "access-control-max-age": "7200",
      vary: "origin",
    },
  });
}
