import { Elysia } from "elysia";
import type { Http } from "../kernel/http/http.ts";
import type { Runtime } from "../kernel/runtime.ts";
import type { FleetService } from "./fleet.ts";
import { fleetNodeRoutes } from "./registration/fleet.node-routes.ts";
import { fleetOperatorRoutes } from "./registration/fleet.operator-routes.ts";

/** The media servers: as operators see them, and what they themselves call. */
export const fleetRoutes = (http: Http, runtime: Runtime, services: { fleet: FleetService }) =>
  new Elysia().use(fleetOperatorRoutes(http, runtime, services)).use(fleetNodeRoutes(http, runtime, services));
