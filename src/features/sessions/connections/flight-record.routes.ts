import { t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { sharedRoutes } from "../../../kernel/http/shared-routes.ts";
import { FlightDump } from "../../../protocol/media/flight.ts";
import { ConnectionDump } from "../session.schema.ts";
import type { FlightRecords } from "./flight-records.ts";

const CONTENTS = "Headers of packets, reports and estimates of its last seconds, for `stoa replay`; no content.";

export const flightRecordRoutes = (http: Http, flightRecords: FlightRecords) =>
  sharedRoutes(
    http,
    { prefix: "/connections/:connectionId", tag: "observability" },
    (app, { route, pick, inEnvironment }) => {
      const contents = { description: pick(CONTENTS, undefined) };
      return app
        .post(
          "/dump",
          async ({ tenant, params, set }) => {
            set.status = 201;
            return flightRecords.dump(tenant, params.connectionId);
          },
          {
            ...route(
              "rooms:manage",
              "Keep what the flight recorder of a connection holds",
              ["SVC_CONNECTION_NOT_FOUND", "SVC_CONFLICT"],
              contents,
            ),
            ...inEnvironment,
            response: { 201: ConnectionDump },
          },
        )
        .get("/dumps", ({ tenant, params }) => flightRecords.list(tenant, params.connectionId), {
          ...route("observability:read", "Dumps of a connection, newest first", ["SVC_CONNECTION_NOT_FOUND"]),
          ...inEnvironment,
          response: { 200: t.Array(ConnectionDump) },
        })
        .get("/dumps/:dumpId", ({ tenant, params }) => flightRecords.read(tenant, params.connectionId, params.dumpId), {
          ...route("observability:read", "A dump", ["SVC_CONNECTION_NOT_FOUND", "SVC_DUMP_NOT_FOUND"], contents),
          ...inEnvironment,
          response: { 200: FlightDump },
        });
    },
  );
