import { Elysia } from "elysia";
import { rawBody } from "../../kernel/http/body.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError } from "../../protocol/errors.ts";
import { TelemetryEvent } from "./observability.schema.ts";
import type { Recorder } from "./recorder.ts";

const MAX_BODY_BYTES = 8_192;
/** A client's clock may be wrong; a time that cannot be is taken for now. */
const MAX_SKEW_MS = 24 * 3_600_000;

/** What clients tell of their connections: taken in memory, written later, never an error that a client must handle. */
export const telemetryRoutes = ({ guards, rateLimit }: Http, { now }: Runtime, recorder: Recorder) =>
  new Elysia({ tags: ["observability"] }).use(guards.rtcToken).post(
    "/v1/telemetry/events",
    ({ caller, body, set }) => {
      const { connectionId, type, timestamp, data } = body;
      const at = timestamp === undefined ? now() : Date.parse(timestamp);
      const plausible = Math.abs(at - now()) < MAX_SKEW_MS;
      recorder.report(caller, { connectionId, type, at: plausible ? at : now(), data });
      set.status = 202;
    },
    {
      ...documented(
        "Report an event of one's own connection",
        ["SVC_RATE_LIMITED", "SVC_PERMISSION_DENIED", "SVC_PAYLOAD_TOO_LARGE"],
        undefined,
        { 202: null },
      ),
      transform: rateLimit("TELEMETRY"),
      body: TelemetryEvent,
      beforeHandle({ request }) {
        if (Buffer.byteLength(rawBody(request)) > MAX_BODY_BYTES) throw new ApiError("SVC_PAYLOAD_TOO_LARGE");
      },
    },
  );
