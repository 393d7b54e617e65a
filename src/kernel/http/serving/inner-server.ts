import type { Server } from "bun";
import type { AnyElysia } from "elysia";
import { websocket } from "elysia/ws";
import { createForwardedClient, type LoopbackTransport } from "../../net/loopback-transport.ts";
import type { SocketServer } from "../../socket/sockets.ts";

export type LoopbackOptions = {
  way: LoopbackTransport;
  /** Tells where the socket of a request is, should it become one. */
  carry(request: Request, server: SocketServer): void;
};

/** The same server where only the edge speaks to it. Anybody of this machine may connect, and is told nothing. */
export function serveLoopback(app: AnyElysia, { way, carry }: LoopbackOptions): Server<unknown> {
  const clientOf = createForwardedClient(way);
  const { serve, websocket: options } = app.config;
  return Bun.serve({
    ...serve,
    unix: way.name,
    websocket: { ...options, ...websocket },
    fetch(request: Request, server: Server<unknown>) {
      if (clientOf(request) === null) return new Response(null, { status: 403, headers: { connection: "close" } });
      if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") return app.fetch(request);
      carry(request, server as SocketServer);
      return socketOrEnd(app.fetch(request));
    },
  } as unknown as Parameters<typeof Bun.serve>[0]) as Server<unknown>;
}

/** The edge reads no requests any more after one for a socket: if none becomes of it, there shall be no more. */
async function socketOrEnd(answering: Response | Promise<Response>): Promise<Response> {
  const answer = await answering;
  answer?.headers.set("connection", "close");
  return answer;
}
