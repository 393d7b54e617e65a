import { Elysia } from "elysia";
import { bearerOf } from "../../../kernel/http/bearer.ts";
import type { Http } from "../../../kernel/http/http.ts";
import type { Log } from "../../../kernel/log.ts";
import { SDP_MAX_BYTES } from "../../../protocol/signaling.ts";
import { iceLinks, SDP_FRAGMENT } from "../../whip/whip.routes.ts";
import { toHttpRefusal } from "../connection.ts";
import { HttpRefusal, TokenRefused } from "../refusals.ts";
import { readBody } from "../request-body.ts";
import { type Ingresses, WHIP_PATH } from "./ingresses.ts";

type IngressDeps = { ingresses: Ingresses; log: Log; requireAttempt: (ipAddress: string) => void };

type Settings = { status?: unknown; headers: Record<string, unknown> };

/**
 * WHIP with the stream key of an ingress, as with LiveKit: the key is the bearer token or the last part of the path. Later requests
 * are sent to an address that only the encoder knows.
 */
export function ingressRoutes({ infoOf }: Http, { ingresses, log, requireAttempt }: IngressDeps) {
  async function answering(set: Settings, work: () => Promise<string>): Promise<string> {
    try {
      return await work();
    } catch (error) {
      const known = toHttpRefusal(error);
      if (!known) log.error({ err: error }, "ingress: request failed");
      set.status = known?.status ?? 500;
      set.headers["content-type"] = "text/plain; charset=utf-8";
      if (known?.retryAfterSeconds !== undefined) set.headers["retry-after"] = String(known.retryAfterSeconds);
      return known?.message ?? "the server could not do this";
    }
  }

  const publish = (request: Request, key: string | null, set: Settings) =>
    answering(set, async () => {
      const { ip: ipAddress, userAgent, startedAt: openedAt } = infoOf(request);
      requireAttempt(ipAddress);
      if (key === null) throw new TokenRefused("the stream key is missing: send it as the bearer token");
      const client = { ipAddress, userAgent, sdk: "whip", openedAt };
      const readOffer = () => readText(request, "application/sdp");
      const { ingressId, resourceId, iceServers, etag, ...answer } = await ingresses.publish(key, readOffer, client);
      set.status = 201;
      set.headers.location = `${WHIP_PATH}/${ingressId}/${resourceId}`;
      set.headers.etag = etag;
      set.headers["accept-patch"] = SDP_FRAGMENT;
      set.headers["content-type"] = "application/sdp";
      if (iceServers.length > 0) set.headers.link = iceServers.flatMap(iceLinks).join(", ");
      return answer.sdp;
    });

  return new Elysia()
    .post(WHIP_PATH, ({ request, set }) => publish(request, bearerOf(request), set), { detail: { hide: true } })
    .post(`${WHIP_PATH}/:key`, ({ request, params, set }) => publish(request, params.key, set), {
      detail: { hide: true },
    })
    .patch(
      `${WHIP_PATH}/:key/:resourceId`,
      ({ request, params: { key: ingressId, resourceId }, set }) =>
        answering(set, async () => {
          const readFragment = () => readText(request, SDP_FRAGMENT);
          const ifMatch = request.headers.get("if-match");
          const { ip: ipAddress } = infoOf(request);
          const restarted = await ingresses.patch(ingressId, resourceId, readFragment, { ifMatch, ipAddress });
          if (restarted === null) {
            set.status = 204;
            return "";
          }
          set.headers.etag = restarted.etag;
          set.headers["content-type"] = SDP_FRAGMENT;
          return restarted.fragment;
        }),
      { detail: { hide: true } },
    )
    .delete(
      `${WHIP_PATH}/:key/:resourceId`,
      ({ params: { key: ingressId, resourceId }, set }) =>
        answering(set, async () => {
          ingresses.end(ingressId, resourceId);
          return "";
        }),
      { detail: { hide: true } },
    );
}

async function readText(request: Request, type: string): Promise<string> {
  if ((request.headers.get("content-type") ?? "").split(";")[0]?.trim() !== type)
    throw new HttpRefusal(415, `content-type must be ${type}`);
  const tooLarge = () => new HttpRefusal(413, `an offer has at most ${SDP_MAX_BYTES} bytes`);
  return (await readBody(request, SDP_MAX_BYTES, tooLarge)).toString();
}
