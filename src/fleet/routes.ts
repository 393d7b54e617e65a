import { Elysia } from "elysia";
import type { Http } from "../kernel/http/http.ts";
import type { Runtime } from "../runtime.ts";
import { fleetNodeRoutes } from "./fleet.node-routes.ts";
import { fleetOperatorRoutes } from "./fleet.operator-routes.ts";
import type { FleetService } from "./fleet.ts";

/** The media servers: as operators see them, and what they themselves call. */
export const fleetRoutes = (http: Http, runtime: Runtime, services: { fleet: FleetService }) =>
  new Elysia().use(fleetOperatorRoutes(http, runtime, services)).use(fleetNodeRoutes(http, runtime, services));
