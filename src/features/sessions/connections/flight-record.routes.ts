import { Elysia, t } from "elysia";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { FlightDump } from "../../../protocol/media/flight.ts";
import { ConnectionDump } from "../session.schema.ts";
import type { FlightRecords } from "./flight-records.ts";

const CONTENTS = "Headers of packets, reports and estimates of its last seconds, for `stoa replay`; no content.";

export const flightRecordKeyRoutes = ({ guards }: Http, flightRecords: FlightRecords) =>
  new Elysia({ prefix: "/v1/connections/:connectionId", tags: ["observability"] })
    .use(guards.apiKey)
    .post(
      "/dump",
      async ({ caller, params, set }) => {
        set.status = 201;
        return flightRecords.dump(caller, params.connectionId);
      },
      {
        ...documented(
          "Keep what the flight recorder of a connection holds",
          ["SVC_CONNECTION_NOT_FOUND", "SVC_CONFLICT"],
          CONTENTS,
        ),
        response: { 201: ConnectionDump },
      },
    )
    .get("/dumps", ({ caller, params }) => flightRecords.list(caller, params.connectionId), {
      ...documented("Dumps of a connection, newest first", ["SVC_CONNECTION_NOT_FOUND"]),
      response: { 200: t.Array(ConnectionDump) },
    })
    .get("/dumps/:dumpId", ({ caller, params }) => flightRecords.read(caller, params.connectionId, params.dumpId), {
      ...documented("A dump", ["SVC_CONNECTION_NOT_FOUND", "SVC_DUMP_NOT_FOUND"], CONTENTS),
      response: { 200: FlightDump },
    });

export const flightRecordDashboardRoutes = ({ guards }: Http, flightRecords: FlightRecords) =>
  new Elysia({ prefix: "/v1/projects/:projectId/connections/:connectionId", tags: ["observability: dashboard"] })
    .use(guards.member)
    .post(
      "/dump",
      async (context) => {
        context.set.status = 201;
        return flightRecords.dump(context, context.params.connectionId);
      },
      {
        ...documented("Keep what the flight recorder of a connection holds", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_CONNECTION_NOT_FOUND",
          "SVC_CONFLICT",
        ]),
        transform: permit("rooms:manage"),
        query: t.Object(EnvironmentQuery),
        response: { 201: ConnectionDump },
      },
    )
    .get("/dumps", (context) => flightRecords.list(context, context.params.connectionId), {
      ...documented("Dumps of a connection, newest first", ["SVC_PROJECT_NOT_FOUND", "SVC_CONNECTION_NOT_FOUND"]),
      transform: permit("observability:read"),
      query: t.Object(EnvironmentQuery),
      response: { 200: t.Array(ConnectionDump) },
    })
    .get(
      "/dumps/:dumpId",
      (context) => flightRecords.read(context, context.params.connectionId, context.params.dumpId),
      {
        ...documented("A dump", ["SVC_PROJECT_NOT_FOUND", "SVC_CONNECTION_NOT_FOUND", "SVC_DUMP_NOT_FOUND"]),
        transform: permit("observability:read"),
        query: t.Object(EnvironmentQuery),
        response: { 200: FlightDump },
      },
    );
