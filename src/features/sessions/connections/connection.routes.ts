import { Elysia, t } from "elysia";
import { rawBody } from "../../../kernel/http/body.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { NEWEST_BY_TIME, type PageRequest, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import { sharedRoutes } from "../../../kernel/http/shared-routes.ts";
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

type Services = { connections: Connections; rooms: RoomService };

function listConnections(
  { connections, rooms }: Services,
  context: PageContext,
  tenant: Tenant,
  query: PageRequest & { state?: State; roomId?: string },
) {
  const roomId = rooms.idForFilter(tenant, query.roomId);
  return page<[number, string], ConnectionRow, ReturnType<typeof connections.present>>(context, query, {
    name: "connections",
    start: NEWEST_BY_TIME,
    read: ([startedAt, id], limit) =>
      connections.list(tenant, { state: query.state, roomId }, { startedAt, id }, limit),
    position: (row) => [row.startedAt, row.id],
    show: connections.present,
  });
}

function listErrors({ errors }: Connections, context: PageContext, tenant: Tenant, query: ErrorQuery) {
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
}

export const connectionRecordRoutes = (http: Http, services: Services) =>
  sharedRoutes(http, { prefix: "", tag: "observability" }, (app, { route, environmentQuery, inEnvironment }) => {
    const { connections } = services;
    return app
      .get("/connections", (context) => listConnections(services, context, context.tenant, context.query), {
        ...route("observability:read", "Connections, newest first", ["SVC_ROOM_NOT_FOUND", "SVC_INVALID_CURSOR"]),
        query: t.Object({ ...connectionQuery, ...environmentQuery }),
        response: { 200: t.Array(Connection) },
      })
      .get("/connections/:connectionId", ({ tenant, params }) => connections.detail(tenant, params.connectionId), {
        ...route("observability:read", "A connection with its timeline and errors", ["SVC_CONNECTION_NOT_FOUND"]),
        ...inEnvironment,
        response: { 200: ConnectionDetail },
      })
      .get("/errors", (context) => listErrors(connections, context, context.tenant, context.query), {
        ...route("observability:read", "Classified errors, newest first", ["SVC_INVALID_CURSOR"]),
        query: t.Object({ ...errorQuery, ...environmentQuery }),
        response: { 200: t.Array(ClassifiedError) },
      })
      .get("/errors/:errorId", ({ tenant, params }) => connections.errors.detail(tenant, params.errorId), {
        ...route("observability:read", "A classified error with its connection", ["SVC_ERROR_NOT_FOUND"]),
        ...inEnvironment,
        response: { 200: ErrorDetail },
      });
  });

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
