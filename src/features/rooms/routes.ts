import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { LiveRooms } from "./live-rooms.ts";
import type { ModerationService } from "./moderation.service.ts";
import { participantDashboardRoutes } from "./participant.dashboard-routes.ts";
import { participantRoutes } from "./participant.routes.ts";
import { roomDashboardRoutes } from "./room.dashboard-routes.ts";
import { roomRoutes } from "./room.routes.ts";
import type { RoomService } from "./room.service.ts";
import { rtcTokenRoutes } from "./rtc-token.routes.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

type RoomServices = {
  rooms: RoomService;
  rtcTokens: RtcTokenService;
  liveRooms: LiveRooms;
  moderation: ModerationService;
};

/** Rooms, tokens and moderation, by API key and in the dashboard. */
export const roomsRoutes = (http: Http, runtime: Runtime, services: RoomServices) => (app: Elysia) =>
  app
    .use(roomRoutes(http, runtime, services))
    .use(rtcTokenRoutes(http, runtime, services))
    .use(participantRoutes(http, services.moderation))
    .use(roomDashboardRoutes(http, runtime, services))
    .use(participantDashboardRoutes(http, services.moderation));
