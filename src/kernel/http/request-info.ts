import type { Server } from "bun";
import ipaddr from "ipaddr.js";
import { ApiError } from "../../protocol/errors.ts";
import { REQUEST_ID_PATTERN } from "../../protocol/ids.ts";
import { createTrust, plainAddress } from "../net/addresses.ts";
import type { TlsClients } from "./serving/tls-clients.ts";

/** What is known of a request before anyone looks at its credential; audit entries and log lines are made of it. */
export type RequestInfo = {
  id: string;
  ip: string;
  userAgent: string | null;
  origin: string | null;
  /** The same, but null for the pages that this server itself serves: what a project allows is asked of others only. */
  foreignOrigin: string | null;
  startedAt: number;
  /** Whether the host that the request names can be this server's, and nobody's who only points there. */
  ownHost: boolean;
  /** Scheme and host under which this client reaches the server, for the addresses in an answer. */
  publicUrl: string;
};

/** Whoever listens for requests; null until it does. */
export type Listening = { readonly server: Server<unknown> | null };

export type InfoLookUp = {
  listening: Listening;
  clientIp: ClientIp;
  publicUrl: PublicUrl;
  isOwnOrigin: (origin: string | null, request: Request) => boolean;
  isOwnHost: (request: Request) => boolean;
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
    this.#ip ??= this.lookUp.clientIp(this.request, this.lookUp.listening.server);
    return this.#ip;
  }

  get publicUrl(): string {
    this.#publicUrl ??= this.lookUp.publicUrl(this.request, this.lookUp.listening.server);
    return this.#publicUrl;
  }

  get foreignOrigin(): string | null {
    if (this.origin === null) return null;
    return this.lookUp.isOwnOrigin(this.origin, this.request) ? null : this.origin;
  }

  get ownHost(): boolean {
    return this.lookUp.isOwnHost(this.request);
  }

  get userAgent(): string | null {
    return this.request.headers.get("user-agent");
  }
}

export type PublicUrl = (request: Request, server: Server<unknown> | null) => string;

/** PUBLIC_URL, or what the request itself says; `x-forwarded-proto` counts only from a trusted proxy. */
export function createPublicUrl(
  publicUrl: string | undefined,
  trustedProxies: readonly string[],
  clients: TlsClients | null = null,
  throughEdge: ThroughEdge = null,
): PublicUrl {
  if (publicUrl !== undefined) {
    const { origin } = new URL(publicUrl);
    return () => origin;
  }
  const isTrusted = createTrust(trustedProxies);
  return (request, server) => {
    const url = new URL(request.url);
    const isProxied = isTrusted(socketAddress(request, server, clients, throughEdge));
    const forwarded = isProxied ? request.headers.get("x-forwarded-proto") : null;
    const own = clients?.clientOf(request, server) ? "https:" : url.protocol;
    const protocol = forwarded === "https" || forwarded === "http" ? `${forwarded}:` : own;
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

/** The client of a request that another server carried here in its name; null for any other. */
export type ThroughEdge = ((request: Request) => string | null) | null;

export type ClientIp = (request: Request, server: Server<unknown> | null) => string;

/** The socket's address; `x-forwarded-for` counts only when it comes from a trusted proxy, read from the right. */
export function createClientIp(
  trustedProxies: readonly string[],
  clients: TlsClients | null = null,
  throughEdge: ThroughEdge = null,
): ClientIp {
  const isTrusted = createTrust(trustedProxies);
  return (request, server) => {
    const socket = socketAddress(request, server, clients, throughEdge);
    if (!isTrusted(socket)) return socket;
    const hops = (request.headers.get("x-forwarded-for") ?? "").split(",").map((hop) => hop.trim());
    for (const hop of hops.reverse()) {
      if (!ipaddr.isValid(hop)) return socket;
      if (!isTrusted(hop)) return plainAddress(hop);
    }
    return socket;
  };
}

/** Who opened the connection; for one that the edge carries, the client on its other side. */
export function socketAddress(
  request: Request,
  server: Server<unknown> | null,
  clients: TlsClients | null,
  throughEdge: ThroughEdge = null,
): string {
  const carried = throughEdge?.(request) ?? null;
  if (carried !== null) return carried;
  const client = clients?.clientOf(request, server);
  if (client !== undefined) return client;
  const peer = server?.requestIP(request);
  return peer ? plainAddress(peer.address) : "127.0.0.1";
}

export function adoptRequestId(given: string | null, generate: () => string): string {
  return given !== null && REQUEST_ID_PATTERN.test(given) ? given : generate();
}
