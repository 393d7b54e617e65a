import type { Server } from "bun";
import type { AnyElysia } from "elysia";
import { websocket } from "elysia/ws";
import { createForwardedClient, type LoopbackTransport } from "../../net/loopback-transport.ts";
import type { SocketServer } from "../../socket/sockets.ts";
import type { Now } from "../../time/clock.ts";

export type Listener = {
  readonly server: Server<unknown>;
  /** The server for the TLS thread only; null without one. */
  readonly loopback: Server<unknown> | null;
  /** Lets requests finish until the deadline, then closes all connections. */
  stop(deadline: number): Promise<void>;
};

type ListenOptions = {
  hostname: string;
  port: number;
  now: Now;
  /** The additional listener for the TLS thread. */
  loopback?: LoopbackOptions | null;
};

/** The plain HTTP server; TLS is terminated before it. */
export function listen(app: AnyElysia, { hostname, port, now, loopback = null }: ListenOptions): Listener {
  skipSecondCompilation(app);
  // Elysia shares the port by default: a second server on the same port would silently receive half of the requests.
  app.listen({ hostname, port, reusePort: false });
  if (!app.server) throw new Error("the HTTP server did not start");
  const loopbackServer = loopback && serveLoopback(app, loopback);
  return {
    server: app.server,
    loopback: loopbackServer,
    async stop(deadline) {
      await Promise.all([stopGently(app.server, deadline, now), stopGently(loopbackServer, deadline, now)]);
    },
  };
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
  const { serve, websocket: options } = app.config;
  return Bun.serve({
    ...serve,
    unix: transport.name,
    websocket: { ...options, ...websocket },
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
