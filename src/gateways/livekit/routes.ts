import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { livekitAgentRoutes } from "./agent.routes.ts";
import { livekitRtcRoutes } from "./rtc.routes.ts";
import type { LivekitGateway } from "./livekit-gateway.ts";
import { twirpRoutes } from "./server-api/twirp.routes.ts";
import type { Log } from "../../kernel/log.ts";
import type { SocketServer } from "../../kernel/socket/sockets.ts";
import { toHttpRefusal, type LivekitConnections, type ClientRequest } from "./connection.ts";
import { type ConnectionMode, readJoinParameters, tokenOf } from "./join-request.ts";
import { bearerOf } from "./join-request.ts";
import type { RtcDeps } from "./rtc.routes.ts";
import { refusalText, socketExpected } from "./rtc.routes.ts";
import { TokenRefused } from "./refusals.ts";
import type { Agents } from "./agents/agents.ts";

/** At the addresses that LiveKit's SDKs know; none of them exists while LIVEKIT_CLIENTS is off. */
export const livekitRoutes = (http: Http, { log }: Runtime, { livekitClients }: { livekitClients: LivekitGateway }) => {
  const { isOpen, door, agents, services, requireAttempt } = livekitClients;
  const routes = new Elysia();
  if (!isOpen) return routes;
  return routes
    .use(livekitRtcRoutes(http, { connections: door, log, mayTry }))
    .use(livekitAgentRoutes(http, { connections: door, agents, log, mayTry }))
    .use(twirpRoutes(http, { readToken: door.readToken, services, log }));
};

export type RtcDeps = {
  connections: LivekitConnections;
  log: Log;
  /** Throws when this address may not try now. */
  mayTry: (what: "connect" | "validate", ipAddress: string) => void;
};

const PATHS: Record<ConnectionMode, string> = { one: "/rtc/v1", two: "/rtc" };

type Answer = { status?: unknown; headers: Record<string, unknown> };

/** For whoever opens the address of a socket in a browser. */
export function socketExpected(set: Answer): string {
  set.status = 426;
  set.headers["content-type"] = "text/plain; charset=utf-8";
  return "connect to this address with a WebSocket";
}

/** The sentence that a developer reads; a cause that nobody foresaw is on the log instead. */
export function refusalText(error: unknown, set: Answer, log: Log): string {
  const known = toHttpRefusal(error);
  if (!known) log.error({ err: error }, "a LiveKit client was not let in");
  set.status = known?.status ?? 500;
  set.headers["content-type"] = "text/plain; charset=utf-8";
  if (known?.retryAfterSeconds !== undefined) set.headers["retry-after"] = String(known.retryAfterSeconds);
  return known?.message ?? "the server could not do this";
}

/**
 * Where LiveKit's clients come in. A client that is refused asks the same address with `/validate` why, and shows the text;
 * so refusals are plain sentences.
 */
export const livekitRtcRoutes = ({ infoOf, sockets }: Http, { connections, log, mayTry }: RtcDeps) => {
  const routes = new Elysia();

  function visitOf(request: Request): ClientRequest {
    const { ip: ipAddress, userAgent, foreignOrigin: origin } = infoOf(request);
    return { ipAddress, userAgent, origin };
  }

  for (const connections of ["one", "two"] as const) {
    routes
      .get(
        PATHS[connections],
        async ({ request, server, set }) => {
          try {
            const visit = visitOf(request);
            mayTry("connect", visit.ipAddress);
            const admitted = await connections.admit(tokenOf(request), visit, () => readJoinParameters(request, connections));
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
        `${PATHS[connections]}/validate`,
        async ({ request, set }) => {
          try {
            const visit = visitOf(request);
            mayTry("validate", visit.ipAddress);
            await connections.admit(tokenOf(request), visit, () => readJoinParameters(request, connections));
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

/** Where workers wait for jobs, with a token that has the `agent` grant. */
export const livekitAgentRoutes = (http: Http, { connections, agents, log, mayTry }: RtcDeps & { agents: Agents }) =>
  new Elysia().get(
    "/agent",
    async ({ request, server, set }) => {
      try {
        mayTry("connect", http.infoOf(request).ip);
        const bearer = bearerOf(request);
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
