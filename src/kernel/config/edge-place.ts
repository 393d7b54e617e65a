import type { Config } from "./variables.ts";

export const HTTPS_PORT = 443;
const EVERY_ADDRESS = "::";
const LOOPBACK = "127.0.0.1";

type Place = { hostname: string; port: number };

/** Where TLS ends, and where plain HTTP is served behind it. */
export type EdgePlace = { edge: Place; plain: Place };

type Settings = Pick<Config, "DOMAIN" | "EDGE_PORT" | "HOST" | "PORT" | "TLS_CERT" | "PUBLIC_URL" | "TURN">;

/** Null: no TLS here. With certificate files and no word of a domain, https stands at HOST and PORT themselves. */
export function edgePlace({ DOMAIN, EDGE_PORT, HOST, PORT, TLS_CERT }: Settings): EdgePlace | null {
  if (DOMAIN === undefined && TLS_CERT === undefined) return null;
  if (DOMAIN !== undefined || EDGE_PORT !== HTTPS_PORT) {
    return { edge: { hostname: EVERY_ADDRESS, port: EDGE_PORT }, plain: { hostname: HOST, port: PORT } };
  }
  return { edge: { hostname: HOST, port: PORT }, plain: { hostname: LOOPBACK, port: 0 } };
}

/** Under which name and port clients find the relay; null when there is none, or nobody said under which name. */
export function turnAddress(config: Settings): { host: string; port: number } | null {
  const { DOMAIN, EDGE_PORT, PUBLIC_URL, TURN } = config;
  if (TURN === "off" || edgePlace(config) === null) return null;
  const home = PUBLIC_URL === undefined ? null : new URL(PUBLIC_URL);
  const homePort = home && Number(home.port || HTTPS_PORT);
  if (DOMAIN !== undefined) {
    const host = DOMAIN.toLowerCase();
    // A proxy that passes TLS on has another port than the edge behind it.
    return { host, port: home?.hostname === host && homePort ? homePort : EDGE_PORT };
  }
  if (!home || !homePort) return null;
  return { host: home.hostname, port: EDGE_PORT === HTTPS_PORT ? homePort : EDGE_PORT };
}
