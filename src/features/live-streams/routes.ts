import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { admissionRoutes, leaveRoute } from "./admission.routes.ts";
import { liveStreamRoutes } from "./live-stream.routes.ts";
import type { LiveStreams } from "./live-streams.ts";

export const liveStreamsRoutes =
  (http: Http, runtime: Runtime, services: { liveStreams: LiveStreams }) => (app: Elysia) =>
    app
      .use(liveStreamRoutes(http, runtime, services))
      .use(admissionRoutes(http, runtime, services))
      .use(leaveRoute(http, runtime, services));
