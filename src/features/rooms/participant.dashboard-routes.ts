import { Elysia } from "elysia";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { Track } from "../../protocol/room-records.ts";
import type { ModerationService } from "./moderation.service.ts";
import { MuteTrack } from "./room.schema.ts";

const MANAGING: ErrorCode[] = [
  "SVC_PROJECT_NOT_FOUND",
  "SVC_PERMISSION_DENIED",
  "SVC_ROOM_NOT_FOUND",
  "SVC_PARTICIPANT_NOT_FOUND",
  "SVC_RTC_SERVER_UNREACHABLE",
];

/** Moderation from the dashboard. */
export const participantDashboardRoutes = ({ guards }: Http, moderation: ModerationService) =>
  new Elysia({ prefix: "/v1/projects/:projectId/rooms/:roomId/participants/:identity", tags: ["rooms: dashboard"] })
    .use(guards.member)
    .delete(
      "",
      async ({ projectId, params, set }) => {
        await moderation.remove({ projectId, roomId: params.roomId }, params.identity);
        set.status = 204;
      },
      {
        ...documented("Remove a participant; no token minted so far brings them back", MANAGING),
        transform: permit("rooms:manage"),
      },
    )
    .post(
      "/tracks/:trackId/mute",
      ({ projectId, params }) => moderation.mute({ projectId, roomId: params.roomId }, params.identity, params.trackId),
      {
        ...documented("Mute a track; only its publisher can open it again", [...MANAGING, "SVC_TRACK_NOT_FOUND"]),
        transform: permit("rooms:manage"),
        body: MuteTrack,
        response: { 200: Track },
      },
    );
