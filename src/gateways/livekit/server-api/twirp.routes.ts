import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import type { Log } from "../../../kernel/log.ts";
import { readBearer } from "../door/join-request.ts";
import { TokenRefused } from "../refused.ts";
import type { LivekitToken } from "../tokens/claims.ts";
import { asTwirp, type Method, TwirpError } from "./twirp.ts";

type TwirpDeps = {
  readToken: (token: string) => Promise<LivekitToken>;
  services: Record<string, Record<string, Method>>;
  log: Log;
};

const MAX_BODY_BYTES = 128 * 1_024;
const FORMS: Record<string, "json" | "protobuf"> = { "application/json": "json", "application/protobuf": "protobuf" };

/** LiveKit's server API: what its server SDKs ask, in the two forms they ask it in. */
export const twirpRoutes = ({ infoOf }: Http, { readToken, services, log }: TwirpDeps) =>
  new Elysia().post(
    "/twirp/:service/:method",
    async ({ request, params, set }) => {
      try {
        // Refuses what no request of ours may have, like a host that is nobody's.
        infoOf(request);
        const type = (request.headers.get("content-type") ?? "").split(";")[0]?.trim() ?? "";
        const form = FORMS[type];
        if (!form) throw new TwirpError("bad_route", "content-type must be application/json or application/protobuf");
        const bearer = readBearer(request);
        if (bearer === null) throw new TokenRefused("no token was given");
        const token = await readToken(bearer);
        requireSomeGrant(token);
        const methods = Object.hasOwn(services, params.service) ? services[params.service] : undefined;
        const method = methods && Object.hasOwn(methods, params.method) ? methods[params.method] : undefined;
        if (!method) throw new TwirpError("unimplemented", `${params.service}/${params.method} is not served here`);
        const answer = await method(token, await readBody(request), form);
        set.headers["content-type"] = type;
        return typeof answer === "string"
          ? answer
          : new Response(new Uint8Array(answer), { headers: { "content-type": type } });
      } catch (error) {
        const known = asTwirp(error);
        if (!known) log.error({ err: error, method: params.method }, "a call of LiveKit's server API failed");
        const { status, code, message } = known ?? new TwirpError("internal", "the server could not do this");
        set.status = status;
        set.headers["content-type"] = "application/json";
        return JSON.stringify({ code, msg: message });
      }
    },
    { detail: { hide: true } },
  );

/** Whoever may only join a room has nothing to ask here, and costs no body: those are many, and nobody counts them. */
function requireSomeGrant({ grant: { roomAdmin, roomList, roomCreate } }: LivekitToken): void {
  if ([roomAdmin, roomList, roomCreate].includes(true)) return;
  throw new TwirpError("permission_denied", "the token has no roomAdmin, roomList or roomCreate grant");
}

async function readBody(request: Request): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.length;
    if (size > MAX_BODY_BYTES) throw new TwirpError("invalid_argument", `a body has at most ${MAX_BODY_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}
