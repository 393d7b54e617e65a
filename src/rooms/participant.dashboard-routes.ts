import { Elysia } from "elysia";
import { documented } from "../kernel/http/docs.ts";
import { permit } from "../kernel/http/guards.ts";
import type { Http } from "../kernel/http/http.ts";
import { ApiError, type ErrorCode } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { MuteTrack, Track } from "./room.schema.ts";
import type { RoomService } from "./room.service.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

const MANAGING: ErrorCode[] = [
  "SVC_PROJECT_NOT_FOUND",
  "SVC_PERMISSION_DENIED",
  "SVC_ROOM_NOT_FOUND",
  "SVC_PARTICIPANT_NOT_FOUND",
  "SVC_RTC_SERVER_UNREACHABLE",
];

/** Moderation from the dashboard. */
export const participantDashboardRoutes = (
  { guards }: Http,
  { write }: Runtime,
  { rooms, rtcTokens, liveRooms }: { rooms: RoomService; rtcTokens: RtcTokenService; liveRooms: LiveRooms },
) =>
  new Elysia({ prefix: "/v1/projects/:projectId/rooms/:roomId/participants/:identity", tags: ["rooms: dashboard"] })
    .use(guards.member)
    .delete(
      "",
      async ({ projectId, params, set }) => {
        const ref = { projectId, roomId: params.roomId };
        const wasPresent = liveRooms.has(rooms.find(ref).id, params.identity);
        const revoked = await write(() => rtcTokens.revokeIdentity(ref, params.identity));
        if (!wasPresent && revoked === 0) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
        set.status = 204;
      },
      {
        ...documented("Remove a participant; no token minted so far brings them back", MANAGING),
        transform: permit("rooms:manage"),
      },
    )
    .post(
      "/tracks/:trackId/mute",
      ({ projectId, params }) => {
        const room = rooms.find({ projectId, roomId: params.roomId });
        return liveRooms.mute(room.id, params.identity, params.trackId);
      },
      {
        ...documented("Mute a track; only its publisher can open it again", [...MANAGING, "SVC_TRACK_NOT_FOUND"]),
        transform: permit("rooms:manage"),
        body: MuteTrack,
        response: Track,
      },
    );
