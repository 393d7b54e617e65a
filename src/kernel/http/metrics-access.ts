import { sameSecret } from "../crypto/secrets.ts";
import { isLoopback } from "../net/addresses.ts";
import { isOwnHost } from "./origins.ts";

export type MetricsAccess = { token: string | undefined; publicUrl: string | undefined };

/**
 * Without a configured token only programs on this machine may read metrics. A web page in a browser here is refused,
 * even if its name resolves to this machine, and so are clients of a reverse proxy here: every IP address in the
 * proxy's header must be local as well.
 */
export function mayReadMetrics(request: Request, address: string, { token, publicUrl }: MetricsAccess): boolean {
  if (token !== undefined) {
    const given = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
    return sameSecret(given, token);
  }
  const hops = request.headers.get("x-forwarded-for")?.split(",") ?? [];
  return isOwnHost(request, publicUrl) && [address, ...hops.map((hop) => hop.trim())].every(isLoopback);
}
