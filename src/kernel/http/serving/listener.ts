import type { Server } from "bun";
import type { AnyElysia } from "elysia";
import type { Now } from "../../clock.ts";

export type Listener = {
  readonly server: Server<unknown>;
  /** Lets requests under way end until the deadline, then closes everything. */
  stop(deadline: number): Promise<void>;
};

/** The HTTP server. TLS, where there is any, ends before it. */
export function listen(app: AnyElysia, options: { hostname: string; port: number; now: Now }): Listener {
  const { hostname, port, now } = options;
  // Elysia shares the port by default: a second server on the same port would silently take half of the requests.
  app.listen({ hostname, port, reusePort: false });
  if (!app.server) throw new Error("the HTTP server did not start");
  return { server: app.server, stop: (deadline) => stopGently(app.server, deadline, now) };
}

export async function stopGently(server: Server<unknown> | null, deadline: number, now: Now): Promise<void> {
  if (!server) return;
  await Promise.race([server.stop(), Bun.sleep(Math.max(0, deadline - now()))]);
  await server.stop(true);
}
