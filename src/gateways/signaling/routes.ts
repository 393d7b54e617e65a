import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { type Socket, type SocketEvents, socketCredential, type TopicSocket } from "../../kernel/socket/sockets.ts";
import { ApiError } from "../../protocol/errors.ts";
import { whipRoutes } from "../whip/whip.routes.ts";
import type { SocketRequest } from "./rtc-socket.ts";
import type { Signaling } from "./signaling.ts";

/** Clients join a room over the RTC socket or with one offer over HTTP (WHIP, WHEP). */
export const signalingRoutes = (http: Http, { signaling }: { signaling: Signaling }) =>
  new Elysia().use(rtcRoutes(http, signaling)).use(whipRoutes(http, signaling.whip));

type RtcSockets = { connect(socket: Socket | TopicSocket, request: SocketRequest): SocketEvents };

/**
 * The socket is always accepted, and rejections are sent on it, because a browser hides the reason of a rejected
 * upgrade.
 */
const rtcRoutes = ({ infoOf, sockets }: Http, { connect }: RtcSockets) =>
  new Elysia({ tags: ["rtc"] }).get(
    "/v1/rtc",
    ({ request, server }) => {
      const { ip, userAgent, foreignOrigin: origin } = infoOf(request);
      const { token, headers } = socketCredential(request);
      const accepted = sockets.accept(server, request, headers, (socket) =>
        connect(socket, { token, origin, ipAddress: ip, userAgent }),
      );
      if (!accepted) throw new ApiError("SVC_VALIDATION_FAILED", "Connect to this address with a WebSocket.");
    },
    documented(
      "The RTC socket",
      ["SVC_VALIDATION_FAILED"],
      "A WebSocket. The RTC token travels as query `token`, as subprotocol `token.<jwt>`, or as `Authorization: Bearer`.",
    ),
  );
