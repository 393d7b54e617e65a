import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { admissionDashboardRoutes } from "./admission.dashboard-routes.ts";
import { admissionRoutes } from "./admission.routes.ts";
import { liveStreamDashboardRoutes } from "./live-stream.dashboard-routes.ts";
import { liveStreamRoutes } from "./live-stream.routes.ts";
import type { LiveStreams } from "./live-streams.ts";

/** Live streams, their hosts and viewers, by API key and in the dashboard. */
export const liveStreamsRoutes =
  (http: Http, runtime: Runtime, services: { liveStreams: LiveStreams }) => (app: Elysia) =>
    app
      .use(liveStreamRoutes(http, runtime, services))
      .use(admissionRoutes(http, runtime, services))
      .use(liveStreamDashboardRoutes(http, runtime, services))
      .use(admissionDashboardRoutes(http, runtime, services));
