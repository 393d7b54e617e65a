import type { Server } from "bun";
import type { AnyElysia } from "elysia";
import { websocket } from "elysia/ws";
import { UNKNOWN_ADDRESS, unmappedAddress } from "../../net/addresses.ts";
import { shareListeningPort, takeListeningPort } from "../../net/listening-sockets.ts";
import { createForwardedClient, forwardedForHeader, type LoopbackTransport } from "../../net/loopback-transport.ts";
import type { SocketServer } from "../../socket/sockets.ts";
import type { Now } from "../../time/clock.ts";

export type Listener = {
  readonly server: Server<unknown>;
  /** The server that only the TLS thread uses; null without that thread. */
  readonly loopback: Server<unknown> | null;
  /** Lets a newer process listen on the same port, or ends that. Returns false where the system does not allow it. */
  share(isShared: boolean): boolean;
  /** Makes requests wait from now on, until a newer process takes them. */
  hold(): HeldRequests;
  /** Lets requests finish until the deadline, then closes all connections. */
  stop(deadline: number): Promise<void>;
};

export type HeldRequests = {
  /** Resolves when the requests that began earlier are finished, at the latest at the deadline. */
  othersFinished(deadline: number): Promise<void>;
  /** Forwards the held requests, and all later ones of open connections, to the process with this loopback transport. */
  forwardTo(successor: LoopbackTransport): void;
};

type ListenOptions = {
  hostname: string;
  port: number;
  now: Now;
  /** The additional listener for the TLS thread, or for an older process. */
  loopback?: LoopbackOptions | null;
  /** Whether an older process listens on the port; new connections come here from now on. */
  succeeds?: boolean;
};

const FINISHED_CHECK_MS = 5;

/** The plain HTTP server; TLS is terminated before it. */
export function listen(app: AnyElysia, options: ListenOptions): Listener {
  const { hostname, port, now, loopback = null, succeeds = false } = options;
  skipSecondCompilation(app);
  // Elysia shares the port by default: a second server on the same port would silently receive half of the requests.
  app.listen({ hostname, port, reusePort: succeeds });
  const { server } = app;
  if (!server) throw new Error("the HTTP server did not start");
  const ownPort = server.port ?? port;
  if (succeeds) takeListeningPort(ownPort);
  const loopbackServer = loopback && serveLoopback(app, loopback);
  return {
    server,
    loopback: loopbackServer,
    share: (isShared) => shareListeningPort(ownPort, isShared),
    hold() {
      const { promise: successor, resolve: forwardTo } = Promise.withResolvers<LoopbackTransport>();
      let waiting = 0;
      const hold = (held: Server<unknown>, clientOf: (request: Request) => string) => {
        const fetch = async (request: Request) => {
          waiting++;
          held.timeout(request, 0);
          try {
            return await forward(await successor, request, clientOf(request));
          } finally {
            waiting--;
          }
        };
        held.reload({ ...servingOf(app), routes: {}, fetch } as unknown as Parameters<typeof held.reload>[0]);
      };
      hold(server, (request) => unmappedAddress(server.requestIP(request)?.address ?? UNKNOWN_ADDRESS));
      if (loopbackServer && loopback) {
        const clientOf = createForwardedClient(loopback.transport);
        hold(loopbackServer, (request) => clientOf(request) ?? UNKNOWN_ADDRESS);
      }
      const pending = () => server.pendingRequests + (loopbackServer?.pendingRequests ?? 0) - waiting;
      return {
        forwardTo,
        async othersFinished(deadline) {
          while (pending() > 0 && now() < deadline) await Bun.sleep(FINISHED_CHECK_MS);
        },
      };
    },
    async stop(deadline) {
      await Promise.all([stopGently(server, deadline, now), stopGently(loopbackServer, deadline, now)]);
    },
  };
}

const servingOf = ({ config: { serve, websocket: options } }: AnyElysia) => ({
  ...serve,
  websocket: { ...options, ...websocket },
});

/** A client that keeps its connection would send its next request to this process too. */
async function forward({ name, secret }: LoopbackTransport, request: Request, client: string): Promise<Response> {
  const closing = { connection: "close" };
  // The client of a WebSocket connects again by itself.
  if (request.headers.has("upgrade")) return new Response(null, { status: 503, headers: closing });
  const headers = new Headers(request.headers);
  headers.delete("connection");
  const [header, value] = forwardedForHeader({ name, secret }, client);
  headers.set(header, value);
  const { method, body, signal } = request;
  const options = { method, headers, body, signal, unix: name, redirect: "manual", decompress: false } as const;
  const response = await fetch(request.url, { ...options, keepalive: false });
  const answered = new Headers(response.headers);
  answered.set("connection", "close");
  return new Response(response.body, { status: response.status, headers: answered });
}

/** Elysia compiles every route again and collects the whole heap after lazy modules are loaded; there are none here. */
function skipSecondCompilation(app: AnyElysia): void {
  const late = app.modules as unknown as { size: number };
  if (late.size > 0) throw new Error("all modules must be loaded before the server listens");
  Object.defineProperty(app, "promisedModules", { value: new Promise(() => {}) });
}

export async function stopGently(server: Server<unknown> | null, deadline: number, now: Now): Promise<void> {
  if (!server) return;
  await Promise.race([server.stop(), Bun.sleep(Math.max(0, deadline - now()))]);
  await server.stop(true);
}

type LoopbackOptions = {
  transport: LoopbackTransport;
  /** Called for every request that may become a socket of this server. */
  carry(request: Request, server: SocketServer): void;
};

/**
 * Serves the app to the TLS thread. Any process of this machine can connect, but requests without the thread's proof
 * are rejected.
 */
function serveLoopback(app: AnyElysia, { transport, carry }: LoopbackOptions): Server<unknown> {
  const clientOf = createForwardedClient(transport);
  return Bun.serve({
    ...servingOf(app),
    unix: transport.name,
    fetch(request: Request, server: Server<unknown>) {
      if (clientOf(request) === null) return new Response(null, { status: 403, headers: { connection: "close" } });
      if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") return app.fetch(request);
      carry(request, server as SocketServer);
      return closeAfter(app.fetch(request));
    },
  } as unknown as Parameters<typeof Bun.serve>[0]) as Server<unknown>;
}

/** The TLS thread parses no more requests after an upgrade, so a rejected upgrade closes the connection. */
async function closeAfter(responding: Response | Promise<Response>): Promise<Response> {
  const response = await responding;
  response?.headers.set("connection", "close");
  return response;
}
