import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import type { Log } from "../../../kernel/log.ts";
import { HttpRefusal } from "../refusals.ts";
import { readBody } from "../request-body.ts";
import { MatrixError, type MatrixRtc } from "./matrix-rtc.ts";

const MAX_BODY_BYTES = 16_384;

type MatrixDeps = {
  matrixRtc: MatrixRtc;
  log: Log;
  /** Each request causes requests to a homeserver, so requests are limited by IP address. */
  requireAttempt: (ipAddress: string) => void;
};

/** The paths that MatrixRTC clients request below a `livekit_service_url`. */
export function matrixRoutes({ infoOf }: Http, { matrixRtc, log, requireAttempt }: MatrixDeps) {
  const paths = {
    "/sfu/get": matrixRtc.legacyToken,
    "/get_token": matrixRtc.token,
    "/delegate_delayed_leave": matrixRtc.delegateLeave,
  };
  const routes = new Elysia();
  for (const [path, serve] of Object.entries(paths)) {
    routes.post(
      path,
      async ({ request, set }) => {
        set.headers["content-type"] = "application/json";
        try {
          const { ip, publicUrl } = infoOf(request);
          requireAttempt(ip);
          return JSON.stringify(await serve(await readObject(request), publicUrl));
        } catch (error) {
          const known = asMatrixError(error);
          if (!known) log.error({ err: error, path }, "matrix: request failed");
          set.status = known?.status ?? 500;
          return JSON.stringify({
            errcode: known?.errcode ?? "M_UNKNOWN",
            error: known?.message ?? "the server could not do this",
          });
        }
      },
      { detail: { hide: true } },
    );
  }
  return routes;
}

function asMatrixError(error: unknown): MatrixError | null {
  if (error instanceof MatrixError) return error;
  return error instanceof HttpRefusal && error.status === 429
    ? new MatrixError(429, "M_LIMIT_EXCEEDED", error.message)
    : null;
}

const tooLarge = () => new MatrixError(413, "M_BAD_JSON", `a body has at most ${MAX_BODY_BYTES} bytes`);

async function readObject(request: Request): Promise<Record<string, unknown>> {
  const body = await readBody(request, MAX_BODY_BYTES, tooLarge);
  try {
    const value: unknown = JSON.parse(body.toString());
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // This gets the same error as JSON that is not an object.
  }
  throw new MatrixError(400, "M_NOT_JSON", "the body must be a JSON object");
}
