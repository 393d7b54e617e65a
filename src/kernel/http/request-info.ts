import type { Server } from "bun";
import ipaddr from "ipaddr.js";
import { ApiError } from "../../protocol/errors.ts";
import { REQUEST_ID_PATTERN } from "../../protocol/ids.ts";
import { createRangeCheck, UNKNOWN_ADDRESS, unmappedAddress } from "../net/addresses.ts";
import type { TlsClients } from "./serving/tls-clients.ts";

/** The properties of a request that do not depend on its credential; audit entries and log lines use them. */
export type RequestInfo = {
  id: string;
  ip: string;
  userAgent: string | null;
  origin: string | null;
  /** Null for pages that this server itself serves, to which a project's allowed origins do not apply. */
  foreignOrigin: string | null;
  startedAt: number;
  /** Whether the request's host belongs to this server, and is not another name that resolves to it. */
  ownHost: boolean;
  /** Scheme and host at which this client reaches the server, for URLs in a response. */
  publicUrl: string;
};

export type Listening = { readonly server: Server<unknown> | null };

export type InfoSources = {
  clientIp: (request: Request) => string;
  publicUrl: (request: Request) => string;
  isOwnOrigin: (origin: string | null, request: Request) => boolean;
  isOwnHost: (request: Request) => boolean;
};

/**
 * Most routes never use the IP address or the user agent, and determining them takes as long as the rest of a small
 * request: each is determined when it is first read.
 */
export class LazyRequestInfo implements RequestInfo {
  readonly origin: string | null;
  #ip: string | undefined;
  #publicUrl: string | undefined;

  constructor(
    readonly id: string,
    readonly startedAt: number,
    private readonly request: Request,
    private readonly sources: InfoSources,
  ) {
    this.origin = request.headers.get("origin");
  }

  get ip(): string {
    this.#ip ??= this.sources.clientIp(this.request);
    return this.#ip;
  }

  get publicUrl(): string {
    this.#publicUrl ??= this.sources.publicUrl(this.request);
    return this.#publicUrl;
  }

  get foreignOrigin(): string | null {
    if (this.origin === null) return null;
    return this.sources.isOwnOrigin(this.origin, this.request) ? null : this.origin;
  }

  get ownHost(): boolean {
    return this.sources.isOwnHost(this.request);
  }

  get userAgent(): string | null {
    return this.request.headers.get("user-agent");
  }
}

/** PUBLIC_URL, or the URL of the request; `x-forwarded-proto` is only used from a trusted proxy. */
export function createPublicUrl(
  publicUrl: string | undefined,
  trustedProxies: readonly string[],
  socketAddress: SocketAddress,
  isTls: (request: Request) => boolean,
): (request: Request) => string {
  if (publicUrl !== undefined) {
    const { origin } = new URL(publicUrl);
    return () => origin;
  }
  const isTrusted = createRangeCheck(trustedProxies);
  return (request) => {
    const url = new URL(request.url);
    const isProxied = isTrusted(socketAddress(request));
    const forwarded = isProxied ? request.headers.get("x-forwarded-proto") : null;
    const own = isTls(request) ? "https:" : url.protocol;
    const protocol = forwarded === "https" || forwarded === "http" ? `${forwarded}:` : own;
    return `${protocol}//${request.headers.get("host") ?? url.host}`;
  };
}

/** The characters of a host name or IP address with a port: the host becomes part of URLs in responses. */
const HOST_CHARACTERS = /^[\w.~!$&'()*+,;=%:[\]-]{1,300}$/;

/** HTTP requires 400 for an invalid Host; otherwise the request's URL could not be parsed. */
export function createHostCheck(): (request: Request) => ApiError | null {
  // Most clients use the same name for a server, and parsing it takes as long as looking up their key.
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

/** The socket's IP address; `x-forwarded-for` is only used from a trusted proxy, and read from the right. */
export function createClientIp(
  trustedProxies: readonly string[],
  socketAddress: SocketAddress,
): (request: Request) => string {
  const isTrusted = createRangeCheck(trustedProxies);
  return (request) => {
    const socket = socketAddress(request);
    if (!isTrusted(socket)) return socket;
    const hops = (request.headers.get("x-forwarded-for") ?? "").split(",").map((hop) => hop.trim());
    for (const hop of hops.reverse()) {
      if (!ipaddr.isValid(hop)) return socket;
      if (!isTrusted(hop)) return unmappedAddress(hop);
    }
    return socket;
  };
}

const SOCKET_ADDRESS = Symbol("socket address");
type ArrivedRequest = Request & { [SOCKET_ADDRESS]?: string };

type SocketAddressSources = {
  listening: Listening;
  /** The clients behind the TLS thread; null without one. */
  clients: TlsClients | null;
  /** Returns the client of a request that a cluster proxy or an older process forwarded; null for any other. */
  forwardedClient: ((request: Request) => string | null) | null;
};

export type SocketAddress = (request: Request) => string;

/**
 * Returns the IP address of the connection or, through the TLS thread or a cluster proxy, of the client behind it. It is
 * read when the request arrives, because a closed connection has no address any more.
 */
export function createSocketAddress({ listening, clients, forwardedClient }: SocketAddressSources): SocketAddress {
  return (request) => {
    const arrived = request as ArrivedRequest;
    arrived[SOCKET_ADDRESS] ??=
      forwardedClient?.(request) ??
      clients?.clientOf(request, listening.server) ??
      peerAddress(request, listening.server);
    return arrived[SOCKET_ADDRESS];
  };
}

function peerAddress(request: Request, server: Server<unknown> | null): string {
  const peer = server?.requestIP(request);
  return peer ? unmappedAddress(peer.address) : UNKNOWN_ADDRESS;
}

export function adoptRequestId(given: string | null, generate: () => string): string {
  return given !== null && REQUEST_ID_PATTERN.test(given) ? given : generate();
}
