import { Elysia, t } from "elysia";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { nullable } from "../../kernel/http/schema.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
import { Attributes, DisplayName, Identity, Participant, Track } from "../../protocol/room-records.ts";
import { DATA_SEND_MAX_BYTES } from "../../protocol/signaling.ts";
import type { ModerationService } from "./moderation.service.ts";
import { Knocks, MuteTrack, RoomReference } from "./room.schema.ts";
import { RtcTokenPermissions } from "./rtc-token.schema.ts";

const NOT_FOUND: ErrorCode[] = ["SVC_ROOM_NOT_FOUND", "SVC_PARTICIPANT_NOT_FOUND", "SVC_RTC_SERVER_UNREACHABLE"];
const REMOVE = "Remove a participant; no token minted so far brings them back";
const MUTE = "Mute a track; only its publisher can open it again";

/** LiveKit's identities are kept in one normal form. */
const nameOf = (identity: string): string => identity.normalize("NFC");

/** Actions of backends on the participants of a room. */
export const participantKeyRoutes = ({ guards }: Http, moderation: ModerationService) =>
  new Elysia({ prefix: "/v1/rooms/:id", tags: ["rooms: moderation"] })
    .use(guards.apiKey)
    .derive(({ caller, info, params }) => ({
      room: { ...caller, roomId: (params as { id: string }).id },
      author: authorOfKey({ caller, info }),
    }))
    .delete(
      "/participants/:identity",
      async ({ room, author, params, set }) => {
        await moderation.remove(room, nameOf(params.identity), author);
        set.status = 204;
      },
      documented(REMOVE, NOT_FOUND),
    )
    .patch(
      "/participants/:identity",
      ({ room, author, params, body }) => moderation.update(room, nameOf(params.identity), body, author),
      {
        ...documented("Change a participant's permissions and attributes (merged), name or metadata, live", [
          ...NOT_FOUND,
        ]),
        body: t.Object({
          permissions: t.Optional(RtcTokenPermissions),
          metadata: t.Optional(nullable(t.String({ maxLength: 2_048 }))),
          name: t.Optional(nullable(DisplayName)),
          attributes: t.Optional(Attributes),
        }),
        response: { 200: Participant },
      },
    )
    .post(
      "/participants/:identity/tracks/:trackId/mute",
      ({ room, author, params }) => moderation.mute(room, nameOf(params.identity), params.trackId, author),
      {
        ...documented(MUTE, [...NOT_FOUND, "SVC_TRACK_NOT_FOUND"]),
        body: MuteTrack,
        response: { 200: Track },
      },
    )
    .post(
      "/move",
      async ({ room, author, body, info }) => {
        const { id, name } = await moderation.move(room, nameOf(body.identity), body.to, author, info.publicUrl);
        return { roomId: id, roomName: name };
      },
      {
        ...documented("Move a participant to another room; its client keeps its camera and joins there", [
          ...NOT_FOUND,
          "SVC_ROOM_CLOSED",
          "SVC_CONFLICT",
          "SVC_USAGE_LIMIT_EXCEEDED",
        ]),
        body: t.Object({ identity: Identity, to: RoomReference }),
        response: { 200: t.Object({ roomId: t.String(), roomName: t.String() }) },
      },
    )
    .get("/lobby", ({ room }) => moderation.waiting(room), {
      ...documented("Who waits in the lobby", ["SVC_ROOM_NOT_FOUND"]),
      response: { 200: Knocks },
    })
    .post(
      "/lobby/:identity/admit",
      async ({ room, author, params, set }) => {
        await moderation.admit(room, nameOf(params.identity), author);
        set.status = 204;
      },
      documented("Let a participant in, who waits now or comes later, until it is removed or the room is closed", [
        "SVC_ROOM_NOT_FOUND",
        "SVC_ROOM_CLOSED",
      ]),
    )
    .post(
      "/lobby/:identity/deny",
      async ({ room, author, params, set }) => {
        await moderation.deny(room, nameOf(params.identity), author);
        set.status = 204;
      },
      documented("Turn away a participant who waits", ["SVC_ROOM_NOT_FOUND", "SVC_PARTICIPANT_NOT_FOUND"]),
    )
    .post(
      "/data",
      async ({ room, body }) => {
        await moderation.sendData(room, { ...body, to: body.to?.map(nameOf) });
        return {};
      },
      {
        ...documented("Send data to all participants of the room who may receive it, or to those named", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_ROOM_CLOSED",
          "SVC_RTC_SERVER_UNREACHABLE",
        ]),
        body: t.Object({
          topic: t.Optional(t.String({ minLength: 1, maxLength: 128 })),
          to: t.Optional(t.Array(Identity, { minItems: 1, maxItems: 500 })),
          payload: t.String({ maxLength: DATA_SEND_MAX_BYTES }),
        }),
        response: { 200: t.Object({}) },
      },
    );

export const participantMemberRoutes = ({ guards }: Http, moderation: ModerationService) =>
  new Elysia({ prefix: "/v1/projects/:projectId/rooms/:roomId/participants/:identity", tags: ["rooms: dashboard"] })
    .use(guards.member)
    .delete(
      "",
      async (context) => {
        const { projectId, environment, params } = context;
        const room = { projectId, namesIn: environment, roomId: params.roomId };
        await moderation.remove(room, nameOf(params.identity), authorOf(context));
        context.set.status = 204;
      },
      {
        ...memberRoute("rooms:manage", REMOVE, NOT_FOUND),
      },
    )
    .post(
      "/tracks/:trackId/mute",
      (context) => {
        const { projectId, environment, params } = context;
        const room = { projectId, namesIn: environment, roomId: params.roomId };
        return moderation.mute(room, nameOf(params.identity), params.trackId, authorOf(context));
      },
      {
        ...memberRoute("rooms:manage", MUTE, [...NOT_FOUND, "SVC_TRACK_NOT_FOUND"]),
        body: MuteTrack,
        response: { 200: Track },
      },
    );
