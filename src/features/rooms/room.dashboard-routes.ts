import { Elysia, t } from "elysia";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { pageQuery } from "../../kernel/http/serving/pages.ts";
import { randomBase62 } from "../../kernel/crypto/ids.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { roomPage } from "./room.page.ts";
import { CreateRoom, Room, RoomStatus, RoomWithParticipants } from "./room.schema.ts";
import type { RoomService } from "./room.service.ts";
import { MintTestToken, RtcToken } from "./rtc-token.schema.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

const TEST_TOKEN_TTL_SECONDS = 600;
/** Everything, so that whoever tries a room out sees all of it work. */
const TEST_PERMISSIONS = { publish: true, publishData: true };

export const roomDashboardRoutes = (
  { guards, idempotency, rateLimit }: Http,
  { write }: Runtime,
  { rooms, rtcTokens, liveRooms }: { rooms: RoomService; rtcTokens: RtcTokenService; liveRooms: LiveRooms },
) =>
  new Elysia({ prefix: "/v1/projects/:projectId/rooms", tags: ["rooms: dashboard"] })
    .use(guards.member)
    .get(
      "",
      (context) => {
        const { projectId, environment, query } = context;
        const list = { projectId, environment, status: query.status ?? "ACTIVE" };
        return roomPage(context, query, { rooms, liveRooms }, list);
      },
      {
        ...documented("Rooms with live participant counts", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery, status: t.Optional(RoomStatus) }),
        response: { 200: t.Array(Room) },
      },
    )
    .post(
      "",
      (context) => idempotency.create(context, (unit) => rooms.show(rooms.create(unit, context, context.body))),
      {
        ...documented("Create a room", ["SVC_PROJECT_NOT_FOUND", "SVC_PERMISSION_DENIED", "SVC_CONFLICT"]),
        transform: permit("rooms:manage"),
        query: t.Object(EnvironmentQuery),
        body: CreateRoom,
        response: { 201: Room },
      },
    )
    .get(
      "/:roomId",
      async ({ projectId, params }) => {
        const row = rooms.find({ projectId, roomId: params.roomId });
        const presence = (await liveRooms.presence([row.id])).get(row.id);
        const reachable = presence?.participantCount !== null;
        const participants = reachable ? await liveRooms.participants(row.id) : [];
        return { ...rooms.show(row, presence), participants };
      },
      {
        ...documented("A room with its live participants and published tracks", ["SVC_ROOM_NOT_FOUND"]),
        response: { 200: RoomWithParticipants },
      },
    )
    .delete(
      "/:roomId",
      ({ projectId, params }) => write((unit) => rooms.show(rooms.close(unit, { projectId, roomId: params.roomId }))),
      {
        ...documented("Close the room; everyone in it is disconnected", ["SVC_ROOM_NOT_FOUND"]),
        transform: permit("rooms:manage"),
        response: { 200: Room },
      },
    )
    .post(
      "/:roomId/test-token",
      (context) =>
        idempotency.mint(context, async () => {
          const { projectId, params, body, info } = context;
          const grant = await write((unit) =>
            rtcTokens.mint(
              unit,
              { projectId, roomId: params.roomId },
              {
                participantIdentity: body.participantIdentity ?? `test-${randomBase62(8)}`,
                permissions: TEST_PERMISSIONS,
                ttlSeconds: TEST_TOKEN_TTL_SECONDS,
              },
            ),
          );
          return rtcTokens.sign(grant, info.publicUrl);
        }),
      {
        ...documented("A token of 10 minutes to try the room out from the dashboard", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_ROOM_CLOSED",
          "SVC_PERMISSION_DENIED",
          "SVC_RATE_LIMITED",
        ]),
        transform: [permit("rooms:manage"), rateLimit("TEST_TOKEN")],
        body: MintTestToken,
        response: { 201: RtcToken },
      },
    );
