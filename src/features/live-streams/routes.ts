import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { admissionDashboardRoutes, admissionRoutes } from "./admission.routes.ts";
import { liveStreamDashboardRoutes, liveStreamRoutes } from "./live-stream.routes.ts";
import type { LiveStreams } from "./live-streams.ts";

export const liveStreamsRoutes =
  (http: Http, runtime: Runtime, services: { liveStreams: LiveStreams }) => (app: Elysia) =>
    app
      .use(liveStreamRoutes(http, runtime, services))
      .use(admissionRoutes(http, runtime, services))
      .use(liveStreamDashboardRoutes(http, runtime, services))
      .use(admissionDashboardRoutes(http, runtime, services));
