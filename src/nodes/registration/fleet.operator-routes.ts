import { Elysia, t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { page, pageQuery } from "../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { FleetService } from "../fleet.ts";
import { FleetMetrics, RtcServer } from "./server.schema.ts";

/** The fleet as an operator sees it. */
export const fleetOperatorRoutes = ({ guards }: Http, { write }: Runtime, { fleet }: { fleet: FleetService }) =>
  new Elysia({ prefix: "/v1/rtc/servers", tags: ["fleet"] })
    .use(guards.operator)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "rtc-servers",
          shape: ["number", "string"],
          read: (after, limit) =>
            fleet.list(Number(after?.[0] ?? Number.MAX_SAFE_INTEGER), String(after?.[1] ?? ""), limit),
          position: (row) => [row.registeredAt, row.name],
          show: fleet.show,
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
    .get("/:name", ({ params }) => fleet.show(fleet.find(params.name)), {
      ...documented("One media server", ["SVC_PERMISSION_DENIED", "SVC_RTC_SERVER_NOT_FOUND"]),
      response: { 200: RtcServer },
    })
    .post("/:name/drain", ({ params }) => write((unit) => fleet.drain(unit, params.name)), {
      ...documented("Send it no new rooms", ["SVC_PERMISSION_DENIED", "SVC_RTC_SERVER_NOT_FOUND"]),
      response: { 200: RtcServer },
    })
    .post("/:name/undrain", ({ params }) => write((unit) => fleet.undrain(unit, params.name)), {
      ...documented("Back into the allocation pool", ["SVC_PERMISSION_DENIED", "SVC_RTC_SERVER_NOT_FOUND"]),
      response: { 200: RtcServer },
    });
