import { Elysia } from "elysia";
import { ApiError } from "../../../protocol/errors.ts";
import { sameSecret } from "../../crypto/secrets.ts";
import { createRangeCheck } from "../../net/addresses.ts";
import { bearerOf } from "../bearer.ts";
import type { SocketAddress } from "../request-info.ts";

export type Arrival = {
  /** The IP address of the connection: of the client itself, or of the last proxy. */
  peer: string;
  trusted: boolean;
  forwardedFor: string | null;
  forwardedProto: string | null;
  /** The client's IP address for rate limits and records. */
  ip: string;
};

export const ARRIVAL_PATH = "/healthz/arrival";

type Deps = {
  /** The secret of this route, readable by processes with access to the data directory. */
  secret: string;
  trustedProxies: readonly string[];
  socketAddress: SocketAddress;
  infoOf: (request: Request) => { ip: string };
};

/** Shows `stoa doctor` how a proxy forwards a request; responds with 404 to all others. */
export function arrivalRoutes({ secret, trustedProxies, socketAddress, infoOf }: Deps) {
  const isTrusted = createRangeCheck(trustedProxies);
  return new Elysia({ detail: { hide: true } }).get(ARRIVAL_PATH, ({ request }): Arrival => {
    const { headers } = request;
    if (!sameSecret(bearerOf(request) ?? "", secret)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    const peer = socketAddress(request);
    return {
      peer,
      trusted: isTrusted(peer),
      forwardedFor: headers.get("x-forwarded-for"),
      forwardedProto: headers.get("x-forwarded-proto"),
      ip: infoOf(request).ip,
    };
  });
}
