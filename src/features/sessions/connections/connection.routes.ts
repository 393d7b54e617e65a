import { Elysia, t } from "elysia";
import { rawBody } from "../../../kernel/http/body.ts";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { NEWEST_BY_TIME, type PageRequest, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS } from "../../../kernel/time/clock.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { ErrorCategory as Category, ConnectionState as State } from "../../../protocol/observability.ts";
import { RoomReference } from "../../rooms/room.schema.ts";
import type { RoomService } from "../../rooms/room.service.ts";
import {
  ClassifiedError,
  Connection,
  ConnectionDetail,
  ConnectionState,
  ErrorCategory,
  ErrorDetail,
  TelemetryEvent,
} from "../session.schema.ts";
import type { Connections } from "./connection.service.ts";
import type { ConnectionRow } from "./connection.store.ts";
import type { ConnectionRecorder } from "./connection-recorder.ts";
import type { ClassifiedErrorRow } from "./error.store.ts";

const connectionQuery = {
  ...pageQuery,
  state: t.Optional(ConnectionState),
  roomId: t.Optional(RoomReference),
};
const errorQuery = {
  ...pageQuery,
  category: t.Optional(ErrorCategory),
  connectionId: t.Optional(t.String({ maxLength: 128 })),
};

type PageContext = Parameters<typeof page>[0];
type ErrorQuery = PageRequest & { category?: Category; connectionId?: string };

/** An API key reads its own project, and a dashboard session any project of its user. */
function handlers(connections: Connections, rooms: RoomService) {
  const { errors } = connections;
  return {
    list(context: PageContext, tenant: Tenant, query: PageRequest & { state?: State; roomId?: string }) {
      const roomId = rooms.idForFilter(tenant, query.roomId);
      return page<[number, string], ConnectionRow, ReturnType<typeof connections.present>>(context, query, {
        name: "connections",
        start: NEWEST_BY_TIME,
        read: ([startedAt, id], limit) =>
          connections.list(tenant, { state: query.state, roomId }, { startedAt, id }, limit),
        position: (row) => [row.startedAt, row.id],
        show: connections.present,
      });
    },
    detail: (tenant: Tenant, reference: string) => connections.detail(tenant, reference),

    errors(context: PageContext, tenant: Tenant, query: ErrorQuery) {
      const { category, connectionId } = query;
      const present = (row: ClassifiedErrorRow) => errors.present(tenant, row);
      if (connectionId !== undefined) {
        const rows = errors.ofConnection(tenant, connectionId);
        const matching = rows.filter((row) => category === undefined || row.category === category);
        return matching.slice(0, query.limit ?? 100).map(present);
      }
      return page<[number, string], ClassifiedErrorRow, ReturnType<typeof present>>(context, query, {
        name: "errors",
        start: NEWEST_BY_TIME,
        read: ([occurredAt, id], limit) => errors.list(tenant, category, { occurredAt, id }, limit),
        position: (row) => [row.occurredAt, row.id],
        show: present,
      });
    },
    error: (tenant: Tenant, id: string) => errors.detail(tenant, id),
  };
}

export const connectionKeyRoutes = ({ guards }: Http, connections: Connections, rooms: RoomService) => {
  const { list, detail, errors, error } = handlers(connections, rooms);
  return new Elysia({ prefix: "/v1", tags: ["observability"] })
    .use(guards.apiKey)
    .get("/connections", (context) => list(context, context.caller, context.query), {
      ...documented("Connections, newest first", ["SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      query: t.Object(connectionQuery),
      response: { 200: t.Array(Connection) },
    })
    .get("/connections/:connectionId", ({ caller, params }) => detail(caller, params.connectionId), {
      ...documented("A connection with its timeline and errors", ["SVC_CONNECTION_NOT_FOUND"]),
      response: { 200: ConnectionDetail },
    })
    .get("/errors", (context) => errors(context, context.caller, context.query), {
      ...documented("Classified errors, newest first", ["SVC_INVALID_CURSOR"]),
      query: t.Object(errorQuery),
      response: { 200: t.Array(ClassifiedError) },
    })
    .get("/errors/:errorId", ({ caller, params }) => error(caller, params.errorId), {
      ...documented("A classified error with its connection", ["SVC_ERROR_NOT_FOUND"]),
      response: { 200: ErrorDetail },
    });
};

/** Records are found by id in either environment. */
export const connectionDashboardRoutes = ({ guards }: Http, connections: Connections, rooms: RoomService) => {
  const { list, detail, errors, error } = handlers(connections, rooms);
  const transform = permit("observability:read");
  return new Elysia({ prefix: "/v1/projects/:projectId", tags: ["observability: dashboard"] })
    .use(guards.member)
    .get("/connections", (context) => list(context, context, context.query), {
      ...documented("Connections, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      transform,
      query: t.Object({ ...connectionQuery, ...EnvironmentQuery }),
      response: { 200: t.Array(Connection) },
    })
    .get("/connections/:connectionId", (context) => detail(context, context.params.connectionId), {
      ...documented("A connection with its timeline and errors", ["SVC_PROJECT_NOT_FOUND", "SVC_CONNECTION_NOT_FOUND"]),
      transform,
      query: t.Object(EnvironmentQuery),
      response: { 200: ConnectionDetail },
    })
    .get("/errors", (context) => errors(context, context, context.query), {
      ...documented("Classified errors, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      transform,
      query: t.Object({ ...errorQuery, ...EnvironmentQuery }),
      response: { 200: t.Array(ClassifiedError) },
    })
    .get("/errors/:errorId", (context) => error(context, context.params.errorId), {
      ...documented("A classified error with its connection", ["SVC_PROJECT_NOT_FOUND", "SVC_ERROR_NOT_FOUND"]),
      transform,
      query: t.Object(EnvironmentQuery),
      response: { 200: ErrorDetail },
    });
};

const MAX_TELEMETRY_BYTES = 8_192;
/** The clock of a client may be wrong; a time further from now than this is replaced by the current time. */
const MAX_SKEW_MS = DAY_MS;

/** Telemetry that clients send about their connections: kept in memory and written later. */
export const telemetryRoutes = ({ guards, rateLimit }: Http, { now }: Runtime, recorder: ConnectionRecorder) =>
  new Elysia({ tags: ["observability"] }).use(guards.rtcToken).post(
    "/v1/telemetry/events",
    ({ caller, body, set }) => {
      const { connectionId, type, timestamp, data } = body;
      const at = timestamp === undefined ? now() : Date.parse(timestamp);
      const plausible = Math.abs(at - now()) < MAX_SKEW_MS;
      recorder.report(caller, { connectionId, type, at: plausible ? at : now(), data });
      set.status = 202;
    },
    {
      ...documented(
        "Report an event of one's own connection",
        ["SVC_RATE_LIMITED", "SVC_PERMISSION_DENIED", "SVC_PAYLOAD_TOO_LARGE"],
        undefined,
        { 202: null },
      ),
      transform: rateLimit("TELEMETRY"),
      body: TelemetryEvent,
      beforeHandle({ request }) {
        if (Buffer.byteLength(rawBody(request)) > MAX_TELEMETRY_BYTES) throw new ApiError("SVC_PAYLOAD_TOO_LARGE");
      },
    },
  );
