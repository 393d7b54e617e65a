import { Elysia, t } from "elysia";
import { documented } from "../kernel/http/docs.ts";
import type { Http } from "../kernel/http/http.ts";
import { Identity, nullable } from "../kernel/http/schema.ts";
import { ApiError, invalid } from "../protocol/errors.ts";
import { DATA_SEND_MAX_BYTES } from "../protocol/signaling.ts";
import type { Runtime } from "../runtime.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { resolvePermissions } from "./permissions.ts";
import { MuteTrack, Participant, Track } from "./room.schema.ts";
import type { RoomService } from "./room.service.ts";
import { RtcTokenPermissions } from "./rtc-token.schema.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

const NOT_THERE = ["SVC_ROOM_NOT_FOUND", "SVC_PARTICIPANT_NOT_FOUND", "SVC_RTC_SERVER_UNREACHABLE"] as const;

/** Moderation: what a backend does to those who are in a room. */
export const participantRoutes = (
  { guards }: Http,
  { write }: Runtime,
  { rooms, rtcTokens, liveRooms }: { rooms: RoomService; rtcTokens: RtcTokenService; liveRooms: LiveRooms },
) =>
  new Elysia({ prefix: "/v1/rooms/:id", tags: ["rooms: moderation"] })
    .use(guards.apiKey)
    .delete(
      "/participants/:identity",
      async ({ caller, params, set }) => {
        const ref = { ...caller, roomId: params.id };
        const wasPresent = liveRooms.has(rooms.find(ref).id, params.identity);
        const revoked = await write(() => rtcTokens.revokeIdentity(ref, params.identity));
        if (!wasPresent && revoked === 0) throw new ApiError("SVC_PARTICIPANT_NOT_FOUND");
        set.status = 204;
      },
      documented("Remove a participant; no token minted so far brings them back", [...NOT_THERE]),
    )
    .patch(
      "/participants/:identity",
      async ({ caller, params, body }) => {
        const { id: roomId } = rooms.find({ ...caller, roomId: params.id });
        const { identity } = params;
        const tokenId = liveRooms.tokenOf(roomId, identity);
        const { metadata } = body;
        if (!body.permissions) return liveRooms.update(roomId, identity, { metadata });
        const permissions = resolvePermissions(body.permissions, liveRooms.permissionsOf(roomId, identity));
        // On record first: whoever reconnects in between must not get the old ones back.
        await write(() => rtcTokens.setPermissions(tokenId, permissions));
        return liveRooms.update(roomId, identity, { permissions, metadata });
      },
      {
        ...documented("Change a participant's permissions (merged) or metadata, live", [...NOT_THERE]),
        body: t.Object({
          permissions: t.Optional(RtcTokenPermissions),
          metadata: t.Optional(nullable(t.String({ maxLength: 2_048 }))),
        }),
        response: Participant,
      },
    )
    .post(
      "/participants/:identity/tracks/:trackId/mute",
      ({ caller, params }) =>
        liveRooms.mute(rooms.find({ ...caller, roomId: params.id }).id, params.identity, params.trackId),
      {
        ...documented("Mute a track; only its publisher can open it again", [...NOT_THERE, "SVC_TRACK_NOT_FOUND"]),
        body: MuteTrack,
        response: Track,
      },
    )
    .post(
      "/data",
      async ({ caller, params, body }) => {
        const room = rooms.findActive({ ...caller, roomId: params.id });
        if (Buffer.byteLength(body.payload) > DATA_SEND_MAX_BYTES) {
          throw invalid("payload", `must have at most ${DATA_SEND_MAX_BYTES} bytes`);
        }
        await liveRooms.sendData(room.id, body);
        return {};
      },
      {
        ...documented("Send data to everyone in the room who may receive it, or to those named", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_ROOM_CLOSED",
          "SVC_RTC_SERVER_UNREACHABLE",
        ]),
        body: t.Object({
          topic: t.Optional(t.String({ minLength: 1, maxLength: 128 })),
          to: t.Optional(t.Array(Identity, { minItems: 1, maxItems: 500 })),
          payload: t.String({ maxLength: DATA_SEND_MAX_BYTES }),
        }),
        response: t.Object({}),
      },
    );
