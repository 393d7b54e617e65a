import { Elysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import { sameSecret } from "../../crypto/secrets.ts";
import { createTrust } from "../../net/addresses.ts";
import { type Listening, socketAddress } from "../request-info.ts";
import type { TlsClients } from "./tls-clients.ts";

/** How a request reached this server: by whom, and on whose behalf. */
export type Arrival = {
  /** Who opened the connection: the client itself, or the last proxy. */
  peer: string;
  /** Whether TRUSTED_PROXIES names the peer. */
  trusted: boolean;
  forwardedFor: string | null;
  forwardedProto: string | null;
  /** The client, as rate limits and records know it. */
  ip: string;
};

export const ARRIVAL_PATH = "/healthz/arrival";

type Deps = {
  /** Known to whoever may read the data directory. */
  secret: string;
  trustedProxies: readonly string[];
  listening: Listening;
  /** Of the edge, when there is one. */
  clients: TlsClients | null;
  infoOf: (request: Request) => { ip: string };
};

/** Lets `stoa doctor` see what a proxy makes of a request; for everybody else there is nothing here. */
export function arrivalRoutes({ secret, trustedProxies, listening, clients, infoOf }: Deps) {
  const isTrusted = createTrust(trustedProxies);
  return new Elysia({ detail: { hide: true } }).get(ARRIVAL_PATH, ({ request }): Arrival => {
    const { headers } = request;
    const given = /^Bearer (.+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? "";
    if (!sameSecret(given, secret)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    const peer = socketAddress(request, listening.server, clients);
    return {
      peer,
      trusted: isTrusted(peer),
      forwardedFor: headers.get("x-forwarded-for"),
      forwardedProto: headers.get("x-forwarded-proto"),
      ip: infoOf(request).ip,
    };
  });
}
