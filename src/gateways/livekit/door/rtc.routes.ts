import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import type { Log } from "../../../kernel/log.ts";
import type { SocketServer } from "../../../kernel/socket/sockets.ts";
import { asRefused, type Door, type Visit } from "./door.ts";
import { type Connections, readArrival, readToken } from "./join-request.ts";

export type RtcDeps = {
  door: Door;
  log: Log;
  /** Throws when this address may not try now. */
  mayTry: (what: "connect" | "validate", ipAddress: string) => void;
};

const PATHS: Record<Connections, string> = { one: "/rtc/v1", two: "/rtc" };

type Answer = { status?: unknown; headers: Record<string, unknown> };

/** For whoever opens the address of a socket in a browser. */
export function socketExpected(set: Answer): string {
  set.status = 426;
  set.headers["content-type"] = "text/plain; charset=utf-8";
  return "connect to this address with a WebSocket";
}

/** The sentence that a developer reads; a cause that nobody foresaw is on the log instead. */
export function plainRefusal(error: unknown, set: Answer, log: Log): string {
  const known = asRefused(error);
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
export const livekitRtcRoutes = ({ infoOf, sockets }: Http, { door, log, mayTry }: RtcDeps) => {
  const routes = new Elysia();

  function visitOf(request: Request): Visit {
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
            const admitted = await door.admit(readToken(request), visit, () => readArrival(request, connections));
            const accepted = sockets.accept(server as SocketServer | null, request, {}, (socket) =>
              door.connect(socket, admitted),
            );
            return accepted ? undefined : socketExpected(set);
          } catch (error) {
            return plainRefusal(error, set, log);
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
            await door.admit(readToken(request), visit, () => readArrival(request, connections));
            set.headers["content-type"] = "text/plain; charset=utf-8";
            return "success";
          } catch (error) {
            return plainRefusal(error, set, log);
          }
        },
        { detail: { hide: true } },
      );
  }
  return routes;
};
