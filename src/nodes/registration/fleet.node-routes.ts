import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { FleetService } from "../fleet.ts";
import { Heartbeat, HeartbeatAnswer, RegisterServer, RtcServer } from "./server.schema.ts";

/** What a media node itself calls, with the shared secret or one of its own. */
export const fleetNodeRoutes = ({ guards }: Http, { write }: Runtime, { fleet }: { fleet: FleetService }) =>
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
