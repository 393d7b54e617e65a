import type { Server } from "bun";
import ipaddr from "ipaddr.js";
import { ApiError } from "../../protocol/errors.ts";
import { REQUEST_ID_PATTERN } from "../../protocol/ids.ts";

/** What is known of a request before anyone looks at its credential; audit entries and log lines are made of it. */
export type RequestInfo = {
  id: string;
  ip: string;
  userAgent: string | null;
  origin: string | null;
  /** The same, but null for the pages that this server itself serves: what a project allows is asked of others only. */
  foreignOrigin: string | null;
  startedAt: number;
  /** Scheme and host under which this client reaches the server, for the addresses in an answer. */
  publicUrl: string;
};

export type InfoLookUp = {
  /** Null until it listens. */
  httpServer: () => Server<unknown> | null;
  clientIp: ClientIp;
  publicUrl: PublicUrl;
  isOwnOrigin: (origin: string | null, request: Request) => boolean;
};

/**
 * Most routes never ask for the address or the browser, and finding out costs as much as the rest of a small request:
 * each is looked up when it is first read.
 */
export class LazyRequestInfo implements RequestInfo {
  readonly origin: string | null;
  #ip: string | undefined;
  #publicUrl: string | undefined;

  constructor(
    readonly id: string,
    readonly startedAt: number,
    private readonly request: Request,
    private readonly lookUp: InfoLookUp,
  ) {
    this.origin = request.headers.get("origin");
  }

  get ip(): string {
    this.#ip ??= this.lookUp.clientIp(this.request, this.lookUp.httpServer());
    return this.#ip;
  }

  get publicUrl(): string {
    this.#publicUrl ??= this.lookUp.publicUrl(this.request, this.lookUp.httpServer());
    return this.#publicUrl;
  }

  get foreignOrigin(): string | null {
    return this.lookUp.isOwnOrigin(this.origin, this.request) ? null : this.origin;
  }

  get userAgent(): string | null {
    return this.request.headers.get("user-agent");
  }
}

export type PublicUrl = (request: Request, server: Server<unknown> | null) => string;

/** PUBLIC_URL, or what the request itself says; `x-forwarded-proto` counts only from a trusted proxy. */
export function createPublicUrl(publicUrl: string | undefined, trustedProxies: readonly string[]): PublicUrl {
  if (publicUrl !== undefined) {
    const { origin } = new URL(publicUrl);
    return () => origin;
  }
  const isTrusted = createTrust(trustedProxies);
  return (request, server) => {
    const url = new URL(request.url);
    const forwarded = isTrusted(socketAddress(request, server)) ? request.headers.get("x-forwarded-proto") : null;
    const protocol = forwarded === "https" || forwarded === "http" ? `${forwarded}:` : url.protocol;
    return `${protocol}//${request.headers.get("host") ?? url.host}`;
  };
}

/** Of a name or an address with a port, and of nothing else that would end up in the addresses of an answer. */
const HOST_CHARACTERS = /^[\w.~!$&'()*+,;=%:[\]-]{1,300}$/;

/** HTTP wants 400 for a Host that is none; the request's address cannot even be read with one. */
export function createHostCheck(): (request: Request) => ApiError | null {
  // Most clients of a server use one name for it, and reading it anew costs as much as looking up their key.
  let known: string | null = null;
  return (request) => {
    const host = request.headers.get("host");
    if (host === known) return null;
    if (host !== null && !(HOST_CHARACTERS.test(host) && URL.canParse(`http://${host}`))) {
      return new ApiError("SVC_VALIDATION_FAILED", "The Host header is not a host.");
    }
    known = host;
    return null;
  };
}

export type ClientIp = (request: Request, server: Server<unknown> | null) => string;

/** The socket's address; `x-forwarded-for` counts only when it comes from a trusted proxy, read from the right. */
export function createClientIp(trustedProxies: readonly string[]): ClientIp {
  const isTrusted = createTrust(trustedProxies);
  return (request, server) => {
    const socket = socketAddress(request, server);
    if (!isTrusted(socket)) return socket;
    const hops = (request.headers.get("x-forwarded-for") ?? "").split(",").map((hop) => hop.trim());
    for (const hop of hops.reverse()) {
      if (!ipaddr.isValid(hop)) return socket;
      if (!isTrusted(hop)) return normal(hop);
    }
    return socket;
  };
}

export function createTrust(trustedProxies: readonly string[]): (address: string) => boolean {
  if (trustedProxies.length === 0) return () => false;
  const trusted = trustedProxies.map((entry) => parseRange(entry));
  return (address) =>
    ipaddr.isValid(address) && trusted.some(([range, bits]) => inRange(ipaddr.process(address), range, bits));
}

export function socketAddress(request: Request, server: Server<unknown> | null): string {
  return normal(server?.requestIP(request)?.address ?? "127.0.0.1");
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
  if (!address.includes(":")) return address;
  return ipaddr.isValid(address) ? ipaddr.process(address).toString() : address;
}

/** Whom a budget by address belongs to. With IPv6 everybody has a network of addresses, and would have as many budgets. */
export function budgetHolder(ip: string): string {
  if (!ip.includes(":") || !ipaddr.IPv6.isValid(ip)) return ip;
  const network = ipaddr.IPv6.parse(ip).parts.slice(0, 4);
  return `${network.map((part) => part.toString(16)).join(":")}::/64`;
}

export function adoptRequestId(given: string | null, generate: () => string): string {
  return given !== null && REQUEST_ID_PATTERN.test(given) ? given : generate();
}
