import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { flightDashboardRoutes, flightKeyRoutes } from "./connections/flight-record.routes.ts";
import type { Flights } from "./connections/flight-records.ts";
import { grafanaDashboard } from "./metrics/grafana.ts";
import type { ObservabilityReads } from "./observability-reads.ts";
import { observabilityDashboardRoutes, observabilityKeyRoutes } from "./connections/connection.routes.ts";
import type { Recorder } from "./connections/connection-recorder.ts";
import { telemetryRoutes } from "./connections/telemetry.routes.ts";

type Services = { observability: { reads: ObservabilityReads; recorder: Recorder; flights: Flights } };

/** What happened to connections, asked by key or session, and told by clients. */
export const observabilityRoutes =
  (http: Http, runtime: Runtime, { observability }: Services) =>
  (app: Elysia) =>
    app
      .use(observabilityKeyRoutes(http, observability.reads))
      .use(observabilityDashboardRoutes(http, observability.reads))
      .use(flightKeyRoutes(http, observability.flights))
      .use(flightDashboardRoutes(http, observability.flights))
      .use(telemetryRoutes(http, runtime, observability.recorder))
      .get("/metrics/grafana.json", () => grafanaDashboard(), {
        ...documented("A Grafana dashboard over /metrics, to import as it is", [], undefined, {
          200: "application/json",
        }),
        tags: ["health"],
      });
