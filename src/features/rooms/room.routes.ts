import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { LiveRooms } from "./live-rooms.ts";
import { roomPage } from "./room.page.ts";
import { CreateRoom, Participants, Room } from "./room.schema.ts";
import type { RoomService } from "./room.service.ts";

export const roomRoutes = (
  { guards, idempotency }: Http,
  { write }: Runtime,
  { rooms, liveRooms }: { rooms: RoomService; liveRooms: LiveRooms },
) =>
  new Elysia({ prefix: "/v1/rooms", tags: ["rooms"] })
    .use(guards.apiKey)
    .get(
      "",
      (context) => {
        const { projectId, environment } = context.caller;
        return roomPage(context, context.query, { rooms, liveRooms }, { projectId, environment, status: "ACTIVE" });
      },
      {
        ...documented("The project's active rooms", ["SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(Room) },
      },
    )
    .post(
      "",
      (context) => idempotency.create(context, (unit) => rooms.show(rooms.create(unit, context.caller, context.body))),
      {
        ...documented("Create a room", ["SVC_CONFLICT", "SVC_IDEMPOTENCY_KEY_REUSED"]),
        body: CreateRoom,
        response: { 201: Room },
      },
    )
    .get(
      "/:id",
      async ({ caller, params }) => {
        const row = rooms.findByReference(caller, params.id);
        return rooms.show(row, (await liveRooms.presence([row.id])).get(row.id));
      },
      { ...documented("One room, by its id or its name", ["SVC_ROOM_NOT_FOUND"]), response: { 200: Room } },
    )
    .delete(
      "/:id",
      ({ caller, params }) => write((unit) => rooms.show(rooms.close(unit, { ...caller, roomId: params.id }))),
      {
        ...documented("Close the room; everyone in it is disconnected", ["SVC_ROOM_NOT_FOUND"]),
        response: { 200: Room },
      },
    )
    .get(
      "/:id/participants",
      ({ caller, params }) => liveRooms.participants(rooms.find({ ...caller, roomId: params.id }).id),
      {
        ...documented("Who is in the room now, as the media server sees it", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_RTC_SERVER_UNREACHABLE",
        ]),
        response: { 200: Participants },
      },
    );
