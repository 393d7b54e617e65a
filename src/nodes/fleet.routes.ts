import { Elysia, t } from "elysia";
import { authorOf } from "../kernel/http/callers.ts";
import type { Http } from "../kernel/http/http.ts";
import { documented } from "../kernel/http/reference/docs.ts";
import { NEWEST_BY_TIME, page, pageQuery } from "../kernel/http/serving/pages.ts";
import type { Runtime } from "../kernel/runtime.ts";
import type { FleetService } from "./fleet.ts";
import {
  FleetMetrics,
  Heartbeat,
  HeartbeatAnswer,
  RegisterServer,
  RtcServer,
  ServerLinks,
} from "./registration/server.schema.ts";

/** The media servers: routes for operators, and routes that media nodes call. */
export const fleetRoutes = (http: Http, runtime: Runtime, services: FleetServices) =>
  new Elysia()
    .use(fleetOperatorRoutes(http, runtime, services))
    .use(linkRoutes(http, services))
    .use(fleetNodeRoutes(http, runtime, services));

type FleetServices = { fleet: FleetService; signaling: { links(): typeof ServerLinks.static } };

const linkRoutes = ({ guards }: Http, { signaling }: Pick<FleetServices, "signaling">) =>
  new Elysia({ prefix: "/v1/rtc/links", tags: ["fleet"] }).use(guards.operator).get("", () => signaling.links(), {
    ...documented("The links between media servers, and the rooms on several", ["SVC_PERMISSION_DENIED"]),
    response: { 200: ServerLinks },
  });

const fleetOperatorRoutes = ({ guards }: Http, { write }: Runtime, { fleet }: { fleet: FleetService }) =>
  new Elysia({ prefix: "/v1/rtc/servers", tags: ["fleet"] })
    .use(guards.operator)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "rtc-servers",
          start: NEWEST_BY_TIME,
          read: ([registeredAt, name], limit) => fleet.list(registeredAt, name, limit),
          position: (row) => [row.registeredAt, row.name],
          show: fleet.present,
        }),
      {
        ...documented("The media servers", ["SVC_PERMISSION_DENIED", "SVC_INVALID_CURSOR"]),
        query: t.Object(pageQuery),
        response: { 200: t.Array(RtcServer) },
      },
    )
    .get("/metrics", () => fleet.metrics(), {
      ...documented("Totals over the fleet", ["SVC_PERMISSION_DENIED"]),
      response: { 200: FleetMetrics },
    })
    .get("/:name", ({ params }) => fleet.present(fleet.find(params.name)), {
      ...documented("One media server", ["SVC_PERMISSION_DENIED", "SVC_RTC_SERVER_NOT_FOUND"]),
      response: { 200: RtcServer },
    })
    .post("/:name/drain", (context) => write((unit) => fleet.drain(unit, context.params.name, authorOf(context))), {
      ...documented("Send it no new rooms", ["SVC_PERMISSION_DENIED", "SVC_RTC_SERVER_NOT_FOUND"]),
      response: { 200: RtcServer },
    })
    .post("/:name/undrain", (context) => write((unit) => fleet.undrain(unit, context.params.name, authorOf(context))), {
      ...documented("Back into the allocation pool", ["SVC_PERMISSION_DENIED", "SVC_RTC_SERVER_NOT_FOUND"]),
      response: { 200: RtcServer },
    });

/** Routes for media nodes, with the shared secret or their own. */
const fleetNodeRoutes = ({ guards }: Http, { write }: Runtime, { fleet }: { fleet: FleetService }) =>
  new Elysia({ prefix: "/v1/rtc/servers", tags: ["fleet: nodes"] })
    .use(guards.node)
    .post(
      "/register",
      async ({ body, caller, set }) => {
        const { created, server } = await write((unit) => fleet.register(unit, body, caller.key));
        set.status = created ? 201 : 200;
        return server;
      },
      {
        ...documented("A media node registers; a known name reclaims its row", [
          "SVC_CONFLICT",
          "SVC_PERMISSION_DENIED",
        ]),
        body: RegisterServer,
        response: { 200: RtcServer, 201: RtcServer },
      },
    )
    .put(
      "/:name/heartbeat",
      ({ params, body, caller }) => write((unit) => fleet.beat(unit, params.name, body, caller.key)),
      {
        ...documented("A media node reports that it lives, and its load", [
          "SVC_RTC_SERVER_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
        ]),
        body: Heartbeat,
        response: { 200: HeartbeatAnswer },
      },
    );
