import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { RoomService } from "../rooms/room.service.ts";
import { connectionRecordRoutes, telemetryRoutes } from "./connections/connection.routes.ts";
import { flightRecordRoutes } from "./connections/flight-record.routes.ts";
import { grafanaRoutes, metricsDashboardRoutes, metricsKeyRoutes } from "./metrics/metrics.routes.ts";
import type { Sessions } from "./sessions.ts";

export { callRoutes } from "./calls/call.routes.ts";

/** Connections, their errors and flight records, and metrics: for API keys, for the dashboard, and from clients. */
export const connectionRoutes =
  (http: Http, runtime: Runtime, sessions: Sessions, rooms: RoomService) => (app: Elysia) =>
    app
      .use(connectionRecordRoutes(http, { connections: sessions.connections, rooms }))
      .use(metricsKeyRoutes(http, sessions))
      .use(metricsDashboardRoutes(http, sessions))
      .use(flightRecordRoutes(http, sessions.connections.flightRecords))
      .use(telemetryRoutes(http, runtime, sessions.recorder))
      .use(grafanaRoutes());
