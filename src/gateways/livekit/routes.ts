import { Elysia } from "elysia";
import { bearerOf } from "../../kernel/http/bearer.ts";
import type { Http } from "../../kernel/http/http.ts";
import type { Log } from "../../kernel/log.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { SocketServer } from "../../kernel/socket/sockets.ts";
import type { Agents } from "./agents/agents.ts";
import { type ClientRequest, type LivekitConnections, toHttpRefusal } from "./connection.ts";
import { ingressRoutes } from "./ingress/ingress.routes.ts";
import { type ConnectionMode, readJoinParameters, tokenOf } from "./join-request.ts";
import type { LivekitGateway } from "./livekit-gateway.ts";
import { matrixRoutes } from "./matrix/matrix.routes.ts";
import { TokenRefused } from "./refusals.ts";
import { twirpRoutes } from "./server-api/twirp.ts";

/** The paths are those of LiveKit's SDKs. None of them exists while LIVEKIT_CLIENTS is off. */
export const livekitRoutes = (http: Http, { log }: Runtime, { livekitClients }: { livekitClients: LivekitGateway }) => {
  const { isOpen, connections, agents, services, matrixRtc, requireAttempt, requireMatrixAttempt } = livekitClients;
  const { ingresses, requireIngressAttempt } = livekitClients;
  const routes = new Elysia();
  if (!isOpen) return routes;
  if (matrixRtc.isOpen) routes.use(matrixRoutes(http, { matrixRtc, log, requireAttempt: requireMatrixAttempt }));
  return routes
    .use(rtcRoutes(http, { connections, log, requireAttempt }))
    .use(agentRoutes(http, { connections, agents, log, requireAttempt }))
    .use(ingressRoutes(http, { ingresses, log, requireAttempt: requireIngressAttempt }))
    .use(twirpRoutes(http, { ...connections, services, log }));
};

type RtcDeps = {
  connections: LivekitConnections;
  log: Log;
  requireAttempt: LivekitGateway["requireAttempt"];
};

const PATHS: Record<ConnectionMode, string> = { one: "/rtc/v1", two: "/rtc" };

type ResponseSettings = { status?: unknown; headers: Record<string, unknown> };

function socketExpected(set: ResponseSettings): string {
  set.status = 426;
  set.headers["content-type"] = "text/plain; charset=utf-8";
  return "connect to this address with a WebSocket";
}

/** The message that a developer reads. An unexpected error is logged instead. */
function refusalText(error: unknown, set: ResponseSettings, log: Log): string {
  const known = toHttpRefusal(error);
  if (!known) log.error({ err: error }, "livekit: connection failed");
  set.status = known?.status ?? 500;
  set.headers["content-type"] = "text/plain; charset=utf-8";
  if (known?.retryAfterSeconds !== undefined) set.headers["retry-after"] = String(known.retryAfterSeconds);
  return known?.message ?? "the server could not do this";
}

/** A rejected client requests `/validate` and shows the text of the response, so rejections are plain text. */
const rtcRoutes = ({ infoOf, sockets }: Http, { connections, log, requireAttempt }: RtcDeps) => {
  const routes = new Elysia();

  function clientRequest(request: Request): ClientRequest {
    const { ip: ipAddress, userAgent, foreignOrigin: origin } = infoOf(request);
    return { ipAddress, userAgent, origin };
  }

  for (const mode of ["one", "two"] as const) {
    routes
      .get(
        PATHS[mode],
        async ({ request, server, set }) => {
          try {
            const client = clientRequest(request);
            await requireAttempt("connect", client.ipAddress, tokenOf(request));
            const admitted = await connections.admit(tokenOf(request), client, () => readJoinParameters(request, mode));
            const accepted = sockets.accept(server as SocketServer | null, request, {}, (socket) =>
              connections.connect(socket, admitted),
            );
            return accepted ? undefined : socketExpected(set);
          } catch (error) {
            return refusalText(error, set, log);
          }
        },
        { detail: { hide: true } },
      )
      .get(
        `${PATHS[mode]}/validate`,
        async ({ request, set }) => {
          try {
            const client = clientRequest(request);
            await requireAttempt("validate", client.ipAddress, tokenOf(request));
            await connections.admit(tokenOf(request), client, () => readJoinParameters(request, mode));
            set.headers["content-type"] = "text/plain; charset=utf-8";
            return "success";
          } catch (error) {
            return refusalText(error, set, log);
          }
        },
        { detail: { hide: true } },
      );
  }
  return routes;
};

/** Agent workers wait for jobs on this socket; their token has the `agent` grant. */
const agentRoutes = (http: Http, { connections, agents, log, requireAttempt }: RtcDeps & { agents: Agents }) =>
  new Elysia().get(
    "/agent",
    async ({ request, server, set }) => {
      try {
        const bearer = bearerOf(request);
        await requireAttempt("connect", http.infoOf(request).ip, bearer);
        if (bearer === null) throw new TokenRefused("no token was given");
        const token = await connections.readToken(bearer);
        if (token.grant.agent !== true) throw new TokenRefused("the token has no agent grant");
        const accepted = http.sockets.accept(server as SocketServer | null, request, {}, (socket) =>
          agents.connect(socket, token.key),
        );
        return accepted ? undefined : socketExpected(set);
      } catch (error) {
        return refusalText(error, set, log);
      }
    },
    { detail: { hide: true } },
  );
