import type { Server } from "bun";
import ipaddr from "ipaddr.js";
import { REQUEST_ID_PATTERN } from "../../protocol/ids.ts";

/** What is known of a request before anyone looks at its credential; audit entries and log lines are made of it. */
export type RequestInfo = {
  id: string;
  ip: string;
  userAgent: string | null;
  origin: string | null;
  startedAt: number;
};

export type ClientIp = (request: Request, server: Server<unknown> | null) => string;

/** The socket's address; `x-forwarded-for` counts only when it comes from a trusted proxy, read from the right. */
export function createClientIp(trustedProxies: readonly string[]): ClientIp {
  const trusted = trustedProxies.map((entry) => parseRange(entry));
  const isTrusted = (address: string) =>
    ipaddr.isValid(address) && trusted.some(([range, bits]) => inRange(ipaddr.process(address), range, bits));

  return (request, server) => {
    const socket = normal(server?.requestIP(request)?.address ?? "127.0.0.1");
    if (!isTrusted(socket)) return socket;
    const hops = (request.headers.get("x-forwarded-for") ?? "").split(",").map((hop) => hop.trim());
    for (const hop of hops.reverse()) {
      if (!ipaddr.isValid(hop)) return socket;
      if (!isTrusted(hop)) return normal(hop);
    }
    return socket;
  };
}

type Address = ReturnType<typeof ipaddr.process>;

function parseRange(entry: string): [Address, number] {
  if (entry.includes("/")) return ipaddr.parseCIDR(entry);
  const address = ipaddr.process(entry);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}

function inRange(address: Address, range: Address, bits: number): boolean {
  return address.kind() === range.kind() && address.match(range, bits);
}

/** `::ffff:10.0.0.1` and `10.0.0.1` are one client. */
function normal(address: string): string {
  return ipaddr.isValid(address) ? ipaddr.process(address).toString() : address;
}

export function adoptRequestId(given: string | null, generate: () => string): string {
  return given !== null && REQUEST_ID_PATTERN.test(given) ? given : generate();
}
