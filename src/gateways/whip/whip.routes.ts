import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { IceServer } from "../../protocol/room-records.ts";
import type { Whip, WhipKind } from "./whip.ts";

const KINDS: readonly WhipKind[] = ["whip", "whep"];
export const SDP_FRAGMENT = "application/trickle-ice-sdpfrag";
const SUMMARY: Record<WhipKind, string> = {
  whip: "Publish into the room with an encoder or another WHIP client",
  whep: "Watch the room with a WHEP player",
};

/** Publishing and watching over plain HTTP (RFC 9725 and the WHEP draft): an offer in, an answer out. */
export const whipRoutes = ({ guards }: Http, whip: Whip) => {
  const routes = new Elysia({ tags: ["rtc"] });
  for (const kind of KINDS) {
    routes.use(
      new Elysia().use(guards.rtcToken).post(
        `/${kind}/:roomId`,
        async ({ caller, info, params, body, set }) => {
          const { ip: ipAddress, userAgent, startedAt: openedAt } = info;
          const client = { ipAddress, userAgent, sdk: kind, openedAt };
          const { sessionId, sdp, etag, iceServers } = await whip.start(kind, caller, params.roomId, body, client);
          set.status = 201;
          set.headers.location = `/${kind}/${caller.roomId}/${sessionId}`;
          set.headers.etag = etag;
          set.headers["accept-patch"] = SDP_FRAGMENT;
          set.headers["content-type"] = "application/sdp";
          if (iceServers.length > 0) set.headers.link = iceServers.flatMap(iceLinks).join(", ");
          return sdp;
        },
        {
          ...documented(
            SUMMARY[kind],
            [
              "SVC_TOKEN_EXPIRED",
              "SVC_TOKEN_REVOKED",
              "SVC_PERMISSION_DENIED",
              "SVC_ROOM_NOT_FOUND",
              "SVC_ROOM_CLOSED",
              "SVC_ROOM_PUBLISHERS_FULL",
              "SVC_PAYLOAD_TOO_LARGE",
              "SVC_UNSUPPORTED_MEDIA_TYPE",
              "SVC_RATE_LIMITED",
              "SVC_NO_RTC_CAPACITY",
            ],
            undefined,
            { 201: "application/sdp" },
          ),
          body: t.String({ minLength: 1, contentMediaType: "application/sdp", description: "The offer" }),
        },
      ),
    );
    // RFC 9725 §4.1: neither has a representation, and a GET succeeds without content. A HEAD is answered alike: by status and type
    // players recognize an endpoint.
    const endpoint = { headers: { "accept-post": "application/sdp", "content-type": "application/sdp" } };
    const hidden = { detail: { hide: true } };
    routes
      .get(`/${kind}/:roomId`, () => new Response(null, endpoint), hidden)
      .options(`/${kind}/:roomId`, () => new Response(null, endpoint), hidden)
      .get(`/${kind}/:roomId/:sessionId`, () => new Response(null, { status: 204 }), hidden);
    routes.use(
      new Elysia().use(guards.rtcTokenAnyAge).patch(
        `/${kind}/:roomId/:sessionId`,
        async ({ caller, info, params, body, request, set }) => {
          const ifMatch = request.headers.get("if-match");
          const restarted = await whip.patch(kind, caller, params, { fragment: body, ifMatch, ipAddress: info.ip });
          if (restarted === null) {
            set.status = 204;
            return;
          }
          set.headers.etag = restarted.etag;
          set.headers["content-type"] = SDP_FRAGMENT;
          return restarted.fragment;
        },
        {
          ...documented(
            "Add ICE candidates, or restart ICE with new credentials (`If-Match: *`)",
            [
              "SVC_PARTICIPANT_NOT_FOUND",
              "SVC_PRECONDITION_FAILED",
              "SVC_PRECONDITION_REQUIRED",
              "SVC_PAYLOAD_TOO_LARGE",
              "SVC_UNSUPPORTED_MEDIA_TYPE",
              "SVC_RATE_LIMITED",
            ],
            undefined,
            { 200: SDP_FRAGMENT, 204: null },
          ),
          body: t.String({ minLength: 1, contentMediaType: SDP_FRAGMENT, description: "The fragment (RFC 8840)" }),
        },
      ),
    );
    routes.use(
      new Elysia().use(guards.rtcTokenAnyAge).delete(
        `/${kind}/:roomId/:sessionId`,
        ({ caller, params, set }) => {
          whip.end(caller, params.roomId, params.sessionId);
          set.status = 204;
        },
        documented("End it", ["SVC_PARTICIPANT_NOT_FOUND"]),
      ),
    );
  }
  return routes;
};

/** WHIP names ICE servers in Link headers (RFC 9725 §4.6). */
export function iceLinks({ urls, username, credential }: IceServer): string[] {
  const parameters = `rel="ice-server"; username="${username}"; credential="${credential}"; credential-type="password"`;
  return urls.map((url) => `<${url}>; ${parameters}`);
}
