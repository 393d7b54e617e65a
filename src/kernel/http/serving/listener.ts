import type { Server } from "bun";
import type { AnyElysia } from "elysia";
import type { Now } from "../../time/clock.ts";
import { type LoopbackOptions, serveLoopback } from "./inner-server.ts";

export type Listener = {
  readonly server: Server<unknown>;
  /** The same for the edge alone; null when there is none. */
  readonly loopback: Server<unknown> | null;
  /** Lets requests under way end until the deadline, then closes everything. */
  stop(deadline: number): Promise<void>;
};

type ListenOptions = {
  hostname: string;
  port: number;
  now: Now;
  /** Where it also listens for the edge. */
  loopback?: LoopbackOptions | null;
};

/** The HTTP server. TLS, where there is any, ends before it. */
export function listen(app: AnyElysia, { hostname, port, now, loopback = null }: ListenOptions): Listener {
  layOutOnce(app);
  // Elysia shares the port by default: a second server on the same port would silently take half of the requests.
  app.listen({ hostname, port, reusePort: false });
  if (!app.server) throw new Error("the HTTP server did not start");
  const within = loopback && serveLoopback(app, loopback);
  return {
    server: app.server,
    loopback: within,
    async stop(deadline) {
      await Promise.all([stopGently(app.server, deadline, now), stopGently(within, deadline, now)]);
    },
  };
}

/** Elysia lays out every route again, and has the whole heap collected, once modules have come that load late: we have none. */
function layOutOnce(app: AnyElysia): void {
  const late = app.modules as unknown as { size: number };
  if (late.size > 0) throw new Error("every module is there before the server listens");
  Object.defineProperty(app, "promisedModules", { value: new Promise(() => {}) });
}

export async function stopGently(server: Server<unknown> | null, deadline: number, now: Now): Promise<void> {
  if (!server) return;
  await Promise.race([server.stop(), Bun.sleep(Math.max(0, deadline - now()))]);
  await server.stop(true);
}
