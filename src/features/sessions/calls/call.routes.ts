import { t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { Timestamp } from "../../../kernel/http/schema.ts";
import { NEWEST_BY_TIME, type PageRequest, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import { sharedRoutes } from "../../../kernel/http/shared-routes.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { RoomReference } from "../../rooms/room.schema.ts";
import type { RoomService } from "../../rooms/room.service.ts";
import { Call, CallCause, CallDetail, CallQuality, CallStatus, CallTimelineEntry } from "./call.schema.ts";
import type { CallFilter, CallRow } from "./call.store.ts";
import type { Calls } from "./calls.ts";

const callQuery = {
  ...pageQuery,
  roomId: t.Optional(RoomReference),
  status: t.Optional(CallStatus),
  connectionId: t.Optional(t.String({ maxLength: 128, description: "Only calls that this connection was part of" })),
  quality: t.Optional(CallQuality),
  cause: t.Optional(CallCause),
  from: t.Optional({ ...Timestamp, description: "Only calls that began at this time or later" }),
  until: t.Optional({ ...Timestamp, description: "Only calls that began before this time" }),
};

type CallQuery = PageRequest & Omit<CallFilter, "from" | "until"> & { from?: string; until?: string };

type Services = { calls: Calls; rooms: RoomService };

const list = ({ calls, rooms }: Services, context: Parameters<typeof page>[0], tenant: Tenant, query: CallQuery) => {
  const roomId = rooms.idForFilter(tenant, query.roomId);
  return page<[number, string], CallRow, ReturnType<Calls["present"]>>(context, query, {
    name: "calls",
    start: NEWEST_BY_TIME,
    read: ([startedAt, id], limit) => {
      const from = query.from === undefined ? undefined : Date.parse(query.from);
      const until = query.until === undefined ? undefined : Date.parse(query.until);
      return calls.list(tenant, { ...query, roomId, from, until }, { startedAt, id }, limit);
    },
    position: (row) => [row.startedAt, row.id],
    show: calls.present,
  });
};

export const callRoutes = (http: Http, { calls, rooms }: Services) =>
  sharedRoutes(http, { prefix: "/calls", tag: "calls" }, (app, { route, pick, environmentQuery, inEnvironment }) =>
    app
      .get("", (context) => list({ calls, rooms }, context, context.tenant, context.query), {
        ...route("observability:read", "Calls, newest first", ["SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object({ ...callQuery, ...environmentQuery }),
        response: { 200: t.Array(Call) },
      })
      .get("/:callId", ({ tenant, params }) => calls.detail(tenant, params.callId), {
        ...route("observability:read", "A call with its participants", ["SVC_CALL_NOT_FOUND"]),
        ...inEnvironment,
        response: { 200: CallDetail },
      })
      .get(
        "/:callId/timeline",
        ({ tenant, params }) => calls.timeline(tenant, params.callId, { texts: pick(true, false) }),
        {
          ...route(
            "observability:read",
            pick(
              "What happened in a call, in order",
              "What happened in a call, in order, without the words of messages",
            ),
            ["SVC_CALL_NOT_FOUND"],
          ),
          ...inEnvironment,
          response: { 200: t.Array(CallTimelineEntry) },
        },
      ),
  );
