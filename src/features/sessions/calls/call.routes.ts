import { Elysia, t } from "elysia";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery, Timestamp } from "../../../kernel/http/schema.ts";
import { NEWEST_BY_TIME, type PageRequest, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
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

const keyRoutes = ({ guards }: Http, { calls, rooms }: Services) =>
  new Elysia({ prefix: "/v1/calls", tags: ["calls"] })
    .use(guards.apiKey)
    .get("", (context) => list({ calls, rooms }, context, context.caller, context.query), {
      ...documented("Calls, newest first", ["SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      query: t.Object(callQuery),
      response: { 200: t.Array(Call) },
    })
    .get("/:callId", ({ caller, params }) => calls.detail(caller, params.callId), {
      ...documented("A call with its participants", ["SVC_CALL_NOT_FOUND"]),
      response: { 200: CallDetail },
    })
    .get("/:callId/timeline", ({ caller, params }) => calls.timeline(caller, params.callId, { texts: true }), {
      ...documented("What happened in a call, in order", ["SVC_CALL_NOT_FOUND"]),
      response: { 200: t.Array(CallTimelineEntry) },
    });

const dashboardRoutes = ({ guards }: Http, { calls, rooms }: Services) =>
  new Elysia({ prefix: "/v1/projects/:projectId/calls", tags: ["calls: dashboard"] })
    .use(guards.member)
    .get("", (context) => list({ calls, rooms }, context, context, context.query), {
      ...documented("Calls, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      transform: permit("observability:read"),
      query: t.Object({ ...callQuery, ...EnvironmentQuery }),
      response: { 200: t.Array(Call) },
    })
    .get("/:callId", (context) => calls.detail(context, context.params.callId), {
      ...documented("A call with its participants", ["SVC_PROJECT_NOT_FOUND", "SVC_CALL_NOT_FOUND"]),
      transform: permit("observability:read"),
      query: t.Object(EnvironmentQuery),
      response: { 200: CallDetail },
    })
    .get("/:callId/timeline", (context) => calls.timeline(context, context.params.callId, { texts: false }), {
      ...documented("What happened in a call, in order, without the words of messages", [
        "SVC_PROJECT_NOT_FOUND",
        "SVC_CALL_NOT_FOUND",
      ]),
      transform: permit("observability:read"),
      query: t.Object(EnvironmentQuery),
      response: { 200: t.Array(CallTimelineEntry) },
    });

export const callRoutes = (http: Http, services: Services) =>
  new Elysia().use(keyRoutes(http, services)).use(dashboardRoutes(http, services));
