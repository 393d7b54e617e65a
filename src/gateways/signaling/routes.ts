import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { whipRoutes } from "../whip/whip.routes.ts";
import type { Signaling } from "./signaling.ts";
import { rtcRoutes } from "./socket/rtc.routes.ts";

/** How clients reach a room: the socket, or one offer over HTTP. */
export const signalingRoutes = (http: Http, { signaling }: { signaling: Signaling }) =>
  new Elysia().use(rtcRoutes(http, signaling)).use(whipRoutes(http, signaling.whip));
