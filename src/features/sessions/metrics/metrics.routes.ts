import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { memberRoute } from "../../../kernel/http/shared-routes.ts";
import {
  Diagnostics as DiagnosticsSchema,
  MetricRange,
  MetricSeries,
  Metrics as MetricsSchema,
} from "../session.schema.ts";
import { prometheusRules } from "./alerts.ts";
import type { Diagnostics } from "./diagnostics.ts";
import { grafanaDashboard } from "./grafana.ts";
import type { Metrics } from "./metrics.ts";

const DEFAULT_RANGE = "24h";
const metricsQuery = { range: t.Optional(MetricRange) };

type Services = { metrics: Metrics; diagnostics: Diagnostics };

export const metricsKeyRoutes = ({ guards }: Http, { metrics, diagnostics }: Services) =>
  new Elysia({ prefix: "/v1", tags: ["observability"] })
    .use(guards.apiKey)
    .get("/metrics", ({ caller, query }) => metrics.totals(caller, query.range ?? DEFAULT_RANGE), {
      ...documented("Connection and error figures over a range"),
      query: t.Object(metricsQuery),
      response: { 200: MetricsSchema },
    })
    .get("/diagnostics", ({ caller }) => diagnostics(caller), {
      ...documented("Whether each dependency answers"),
      response: { 200: DiagnosticsSchema },
    });

export const metricsDashboardRoutes = ({ guards }: Http, { metrics, diagnostics }: Services) =>
  new Elysia({ prefix: "/v1/projects/:projectId", tags: ["observability: dashboard"] })
    .use(guards.member)
    .get("/metrics", (context) => metrics.totals(context, context.query.range ?? DEFAULT_RANGE), {
      ...memberRoute("observability:read", "Connection and error figures over a range"),
      query: t.Object({ ...metricsQuery, ...EnvironmentQuery }),
      response: { 200: MetricsSchema },
    })
    .get("/metrics/series", (context) => metrics.series(context, context.query.range ?? DEFAULT_RANGE), {
      ...memberRoute("observability:read", "The same figures over time, with chat and webhooks"),
      query: t.Object({ ...metricsQuery, ...EnvironmentQuery }),
      response: { 200: MetricSeries },
    })
    .get("/diagnostics", ({ projectId }) => diagnostics({ projectId }), {
      ...memberRoute("observability:read", "Whether each dependency answers"),
      response: { 200: DiagnosticsSchema },
    });

export const grafanaRoutes = () =>
  new Elysia({ tags: ["health"] })
    .get("/metrics/grafana.json", () => grafanaDashboard(), {
      ...documented("A Grafana dashboard over /metrics, to import as it is", [], undefined, {
        200: "application/json",
      }),
    })
    .get("/metrics/rules.yml", () => prometheusRules(), {
      ...documented("Alerting rules for Prometheus over /metrics", [], undefined, { 200: "text/plain" }),
    });
