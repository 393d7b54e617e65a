import { Elysia, t } from "elysia";
import { randomBase62 } from "../../kernel/crypto/ids.ts";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, type PageRequest, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { LiveRooms } from "./live-rooms.ts";
import type { ModerationService } from "./moderation.service.ts";
import { participantKeyRoutes, participantMemberRoutes } from "./participant.routes.ts";
import { CreateRoom, Participants, Room, RoomStatus, RoomWithParticipants, UpdateRoom } from "./room.schema.ts";
import type { RoomService } from "./room.service.ts";
import type { RoomFilter } from "./room.store.ts";
import type { RoomRow } from "./room.table.ts";
import { MintRtcToken, MintTestToken, RtcToken } from "./rtc-token.schema.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

const TEST_TOKEN_TTL_SECONDS = 600;
const TEST_TOKEN_PERMISSIONS = { publish: true, publishData: true };

type RoomServices = { rooms: RoomService; rtcTokens: RtcTokenService; liveRooms: LiveRooms };

/** Rooms, tokens and participants, for API keys and for members of the project. */
export const roomsRoutes =
  (http: Http, runtime: Runtime, services: RoomServices & { moderation: ModerationService }) => (app: Elysia) =>
    app
      .use(roomKeyRoutes(http, runtime, services))
      .use(rtcTokenRoutes(http, runtime, services))
      .use(participantKeyRoutes(http, services.moderation))
      .use(roomMemberRoutes(http, runtime, services))
      .use(participantMemberRoutes(http, services.moderation));

const roomKeyRoutes = ({ guards, idempotency }: Http, { write }: Runtime, services: RoomServices) => {
  const { rooms, liveRooms } = services;
  return new Elysia({ prefix: "/v1/rooms", tags: ["rooms"] })
    .use(guards.apiKey)
    .get(
      "",
      (context) => {
        const { projectId, environment } = context.caller;
        return roomPage(context, context.query, services, { projectId, environment, status: "ACTIVE" });
      },
      {
        ...documented("The project's active rooms", ["SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Room) },
      },
    )
    .post(
      "",
      (context) =>
        idempotency.create(context, (unit) => rooms.present(rooms.create(unit, context.caller, context.body))),
      {
        ...documented("Create a room", ["SVC_CONFLICT", "SVC_IDEMPOTENCY_KEY_REUSED"]),
        body: CreateRoom,
        response: { 201: Room },
      },
    )
    .get(
      "/:id",
      async ({ caller, params }) => {
        const row = rooms.find({ ...caller, roomId: params.id });
        return rooms.present(row, (await liveRooms.presence([row.id])).get(row.id));
      },
      { ...documented("One room, by its id or its name", ["SVC_ROOM_NOT_FOUND"]), response: { 200: Room } },
    )
    .delete(
      "/:id",
      (context) => {
        const ref = { ...context.caller, roomId: context.params.id };
        return write((unit) => rooms.present(rooms.close(unit, ref, "closed", authorOfKey(context))));
      },
      {
        ...documented("Close the room; everyone in it is disconnected", ["SVC_ROOM_NOT_FOUND"]),
        response: { 200: Room },
      },
    )
    .patch(
      "/:id",
      async (context) => {
        const { caller, params, body } = context;
        const ref = { ...caller, roomId: params.id };
        const row = await write((unit) => rooms.update(unit, ref, body, authorOfKey(context)));
        return rooms.present(row, (await liveRooms.presence([row.id])).get(row.id));
      },
      {
        ...documented("Change a room; its participants are notified", ["SVC_ROOM_NOT_FOUND", "SVC_ROOM_CLOSED"]),
        body: UpdateRoom,
        response: { 200: Room },
      },
    )
    .get(
      "/:id/participants",
      ({ caller, params }) => liveRooms.participants(rooms.find({ ...caller, roomId: params.id }).id),
      {
        ...documented("The participants who are in the room now, as the media server reports them", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_RTC_SERVER_UNREACHABLE",
        ]),
        response: { 200: Participants },
      },
    );
};

const rtcTokenRoutes = ({ guards, idempotency, rateLimit }: Http, { write }: Runtime, { rtcTokens }: RoomServices) =>
  new Elysia({ prefix: "/v1/rooms/:id/rtc-tokens", tags: ["rooms"] })
    .use(guards.apiKey)
    .post(
      "",
      (context) =>
        idempotency.mint(context, async () => {
          const { caller, params, body, info } = context;
          const grant = await write((unit) => rtcTokens.mint(unit, { ...caller, roomId: params.id }, body));
          return rtcTokens.sign(grant, info.publicUrl);
        }),
      {
        ...documented("Mint a token for one participant", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_ROOM_CLOSED",
          "SVC_USAGE_LIMIT_EXCEEDED",
          "SVC_RATE_LIMITED",
          "SVC_IDEMPOTENCY_KEY_REUSED",
          "SVC_IDEMPOTENCY_IN_PROGRESS",
        ]),
        transform: rateLimit("RTC_TOKENS"),
        body: MintRtcToken,
        response: { 201: RtcToken },
      },
    )
    .delete(
      "/:tokenId",
      async (context) => {
        const { caller, params } = context;
        const ref = { ...caller, roomId: params.id };
        await write((unit) => rtcTokens.revoke(unit, ref, params.tokenId, authorOfKey(context)));
        context.set.status = 204;
      },
      {
        ...documented("Revoke a token; participants who joined with it are disconnected and cannot join again", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_RTC_TOKEN_NOT_FOUND",
          "SVC_RATE_LIMITED",
        ]),
        transform: rateLimit("RTC_TOKEN_REVOKE"),
      },
    );

const roomMemberRoutes = ({ guards, idempotency, rateLimit }: Http, { write }: Runtime, services: RoomServices) => {
  const { rooms, rtcTokens, liveRooms } = services;
  return new Elysia({ prefix: "/v1/projects/:projectId/rooms", tags: ["rooms: dashboard"] })
    .use(guards.member)
    .get(
      "",
      (context) => {
        const { projectId, environment, query } = context;
        const filter = { projectId, environment, status: query.status ?? "ACTIVE" };
        return roomPage(context, query, services, filter);
      },
      {
        ...documented("Rooms with live participant counts", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery, status: t.Optional(RoomStatus) }),
        response: { 200: t.Array(Room) },
      },
    )
    .post(
      "",
      (context) => idempotency.create(context, (unit) => rooms.present(rooms.create(unit, context, context.body))),
      {
        ...memberRoute("rooms:manage", "Create a room", ["SVC_CONFLICT"]),
        query: t.Object(EnvironmentQuery),
        body: CreateRoom,
        response: { 201: Room },
      },
    )
    .get(
      "/:roomId",
      async ({ projectId, environment, params }) => {
        const row = rooms.find({ projectId, namesIn: environment, roomId: params.roomId });
        const presence = (await liveRooms.presence([row.id])).get(row.id);
        const reachable = presence?.sites.every(({ participants }) => participants !== null) ?? true;
        const participants = reachable ? await liveRooms.participants(row.id) : [];
        return { ...rooms.present(row, presence), links: liveRooms.linksOf(row.id), participants };
      },
      {
        ...documented("A room with its live participants and published tracks", ["SVC_ROOM_NOT_FOUND"]),
        response: { 200: RoomWithParticipants },
      },
    )
    .delete(
      "/:roomId",
      (context) => {
        const { projectId, environment, params } = context;
        const ref = { projectId, namesIn: environment, roomId: params.roomId };
        return write((unit) => rooms.present(rooms.close(unit, ref, "closed", authorOf(context))));
      },
      {
        ...memberRoute("rooms:manage", "Close the room; everyone in it is disconnected", ["SVC_ROOM_NOT_FOUND"]),
        response: { 200: Room },
      },
    )
    .post(
      "/:roomId/test-token",
      (context) =>
        idempotency.mint(context, async () => {
          const { projectId, environment, params, body, info } = context;
          const grant = await write((unit) =>
            rtcTokens.mint(
              unit,
              { projectId, namesIn: environment, roomId: params.roomId },
              {
                participantIdentity: body.participantIdentity ?? `test-${randomBase62(8)}`,
                permissions: TEST_TOKEN_PERMISSIONS,
                ttlSeconds: TEST_TOKEN_TTL_SECONDS,
              },
              authorOf(context),
            ),
          );
          return rtcTokens.sign(grant, info.publicUrl);
        }),
      {
        ...memberRoute(
          "rooms:manage",
          "A token of 10 minutes to try the room out from the dashboard",
          ["SVC_ROOM_NOT_FOUND", "SVC_ROOM_CLOSED", "SVC_RATE_LIMITED"],
          { rateLimit: rateLimit("TEST_TOKEN") },
        ),
        body: MintTestToken,
        response: { 201: RtcToken },
      },
    );
};

/** A page of rooms with their live state. */
async function roomPage(
  context: Parameters<typeof page>[0],
  request: PageRequest,
  { rooms, liveRooms }: RoomServices,
  filter: RoomFilter,
) {
  const rows = page<[string], RoomRow, RoomRow>(context, request, {
    name: "rooms",
    start: NEWEST_BY_ID,
    read: ([before], limit) => rooms.list(filter, before, limit),
    position: (row) => [row.id],
    show: (row) => row,
  });
  const presence = await liveRooms.presence(rows.map((row) => row.id));
  return rows.map((row) => rooms.present(row, presence.get(row.id)));
}
