import type { AnyElysia } from "elysia";
import type { Now } from "../../clock.ts";
import type { Certificate } from "./certificate.ts";
import { type Renewable, serveRenewably } from "./renewable.ts";

type ListenOptions = { hostname: string; port: number; certificate: Certificate | undefined; now: Now };

/** The HTTP server. */
export function listen(app: AnyElysia, { hostname, ...options }: ListenOptions): Renewable<unknown> {
  return serveRenewably<unknown>((port, tls) => {
    // Elysia shares the port by default: a second server on the same port would silently take half of the requests.
    app.listen({ hostname, port, reusePort: false, tls });
    if (!app.server) throw new Error("the HTTP server did not start");
    return app.server;
  }, options);
}
