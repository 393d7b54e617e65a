import { Elysia, t } from "elysia";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { pageQuery } from "../../kernel/http/serving/pages.ts";
import type { ObservabilityReads } from "./observability.reads.ts";
import {
  ClassifiedError,
  Connection,
  ConnectionDetail,
  ConnectionState,
  Diagnostics,
  ErrorCategory,
  ErrorDetail,
  MetricRange,
  MetricSeries,
  Metrics,
} from "./observability.schema.ts";

const connectionQuery = {
  ...pageQuery,
  state: t.Optional(ConnectionState),
  roomId: t.Optional(t.String({ maxLength: 128 })),
};
const errorQuery = {
  ...pageQuery,
  category: t.Optional(ErrorCategory),
  connectionId: t.Optional(t.String({ maxLength: 128 })),
};
const metricsQuery = { range: t.Optional(MetricRange) };

/** For an API key: its own project and environment. */
export const observabilityKeyRoutes = ({ guards }: Http, reads: ObservabilityReads) =>
  new Elysia({ prefix: "/v1", tags: ["observability"] })
    .use(guards.apiKey)
    .get("/connections", (context) => reads.connections(context, tenantOf(context.caller), context.query), {
      ...documented("Connections, newest first", ["SVC_INVALID_CURSOR"]),
      query: t.Object(connectionQuery),
      response: { 200: t.Array(Connection) },
    })
    .get(
      "/connections/:connectionId",
      ({ caller, params }) => reads.connection(tenantOf(caller), params.connectionId),
      {
        ...documented("A connection with its timeline and errors", ["SVC_CONNECTION_NOT_FOUND"]),
        response: { 200: ConnectionDetail },
      },
    )
    .get("/errors", (context) => reads.errors(context, tenantOf(context.caller), context.query), {
      ...documented("Classified errors, newest first", ["SVC_INVALID_CURSOR"]),
      query: t.Object(errorQuery),
      response: { 200: t.Array(ClassifiedError) },
    })
    .get("/errors/:errorId", ({ caller, params }) => reads.error(tenantOf(caller), params.errorId), {
      ...documented("A classified error with its connection", ["SVC_ERROR_NOT_FOUND"]),
      response: { 200: ErrorDetail },
    })
    .get("/metrics", ({ caller, query }) => reads.metrics(tenantOf(caller), query.range), {
      ...documented("Connection and error figures over a range"),
      query: t.Object(metricsQuery),
      response: { 200: Metrics },
    })
    .get("/diagnostics", ({ caller }) => reads.diagnostics(caller), {
      ...documented("Whether each dependency answers"),
      response: { 200: Diagnostics },
    });

/** For the dashboard: a project that the caller belongs to. Records are found by id in either environment. */
export const observabilityDashboardRoutes = ({ guards }: Http, reads: ObservabilityReads) =>
  new Elysia({ prefix: "/v1/projects/:projectId", tags: ["observability: dashboard"] })
    .use(guards.member)
    .get("/connections", (context) => reads.connections(context, tenantOf(context), context.query), {
      ...documented("Connections, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      transform: permit("observability:read"),
      query: t.Object({ ...connectionQuery, ...EnvironmentQuery }),
      response: { 200: t.Array(Connection) },
    })
    .get("/connections/:connectionId", (context) => reads.connection(tenantOf(context), context.params.connectionId), {
      ...documented("A connection with its timeline and errors", ["SVC_PROJECT_NOT_FOUND", "SVC_CONNECTION_NOT_FOUND"]),
      transform: permit("observability:read"),
      query: t.Object(EnvironmentQuery),
      response: { 200: ConnectionDetail },
    })
    .get("/errors", (context) => reads.errors(context, tenantOf(context), context.query), {
      ...documented("Classified errors, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_INVALID_CURSOR"]),
      transform: permit("observability:read"),
      query: t.Object({ ...errorQuery, ...EnvironmentQuery }),
      response: { 200: t.Array(ClassifiedError) },
    })
    .get("/errors/:errorId", (context) => reads.error(tenantOf(context), context.params.errorId), {
      ...documented("A classified error with its connection", ["SVC_PROJECT_NOT_FOUND", "SVC_ERROR_NOT_FOUND"]),
      transform: permit("observability:read"),
      query: t.Object(EnvironmentQuery),
      response: { 200: ErrorDetail },
    })
    .get("/metrics", (context) => reads.metrics(tenantOf(context), context.query.range), {
      ...documented("Connection and error figures over a range", ["SVC_PROJECT_NOT_FOUND"]),
      transform: permit("observability:read"),
      query: t.Object({ ...metricsQuery, ...EnvironmentQuery }),
      response: { 200: Metrics },
    })
    .get("/metrics/series", (context) => reads.series(tenantOf(context), context.query.range), {
      ...documented("The same figures over time, with chat and webhooks", ["SVC_PROJECT_NOT_FOUND"]),
      transform: permit("observability:read"),
      query: t.Object({ ...metricsQuery, ...EnvironmentQuery }),
      response: { 200: MetricSeries },
    })
    .get("/diagnostics", ({ projectId }) => reads.diagnostics({ projectId }), {
      ...documented("Whether each dependency answers", ["SVC_PROJECT_NOT_FOUND"]),
      transform: permit("observability:read"),
      response: { 200: Diagnostics },
    });

type Tenanted = Parameters<ObservabilityReads["connections"]>[1];

function tenantOf({ projectId, environment }: Tenanted): Tenanted {
  return { projectId, environment };
}
