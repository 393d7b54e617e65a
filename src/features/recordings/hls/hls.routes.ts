import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { queryInteger } from "../../../kernel/http/schema.ts";
import { AskAgain, type HlsResponse, type HlsService, PLAYLIST_TYPE } from "./hls.service.ts";

export const hlsRoutes = ({ guards }: Http, hls: HlsService) =>
  new Elysia({ prefix: "/v1/live-streams", tags: ["live streams"] })
    .use(guards.open)
    .get(
      "/:streamId/hls/index.m3u8",
      async ({ params, query, request }) => respond(request, hls.open(params.streamId, query.token)),
      {
        ...documented(
          "A live stream as HLS, for players and caches; the token is `rtc.token` of a viewer",
          ["SVC_AUTH_ERROR", "SVC_TOKEN_REVOKED", "SVC_STREAM_NOT_FOUND", "SVC_HLS_UNAVAILABLE"],
          undefined,
          { 200: PLAYLIST_TYPE },
        ),
        query: t.Object({ token: t.String({ maxLength: 4_096, description: "Of a viewer or a host of the stream" }) }),
      },
    )
    .get(
      "/:streamId/hls/:key/:name",
      async ({ params, query, request }) => {
        const { _HLS_msn: msn = null, _HLS_part: part = null, _HLS_skip: skip } = query;
        return respond(request, hls.read(params.key, params.name, { msn, part, skip: skip !== undefined }));
      },
      {
        query: t.Object({
          _HLS_msn: t.Optional(queryInteger({ min: 0, max: 1_000_000 })),
          _HLS_part: t.Optional(queryInteger({ min: 0, max: 1_000 })),
          _HLS_skip: t.Optional(t.String({ maxLength: 8 })),
        }),
        detail: { hide: true },
      },
    );

async function respond(request: Request, reading: Promise<HlsResponse>): Promise<Response> {
  try {
    return toResponse(await reading);
  } catch (error) {
    if (!(error instanceof AskAgain)) throw error;
    const { pathname, search } = new URL(request.url);
    // Relative, because a proxy may serve the stream at another address.
    const location = pathname.slice(pathname.lastIndexOf("/") + 1) + search;
    return new Response(null, { status: 307, headers: { location, "cache-control": "no-store", vary: "origin" } });
  }
}

function toResponse({ type, cacheControl, body }: HlsResponse): Response {
  const headers = { "content-type": type, "cache-control": cacheControl, "x-content-type-options": "nosniff" };
  // The header is sent even to a player without an Origin header: otherwise a cache would serve its response to pages,
  // which could not read it.
  return new Response(body, { headers: { ...headers, vary: "origin" } });
}
