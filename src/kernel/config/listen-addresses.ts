import type { Config } from "./variables.ts";

export const HTTPS_PORT = 443;
const EVERY_ADDRESS = "::";
const LOOPBACK = "127.0.0.1";

type Address = { hostname: string; port: number };

/** The address of TLS termination, and the address of plain HTTP behind it. */
export type ListenAddresses = { tls: Address; plain: Address };

type Settings = Pick<Config, "DOMAIN" | "EDGE_PORT" | "HOST" | "PORT" | "TLS_CERT" | "PUBLIC_URL" | "TURN">;

/** Null without TLS. With certificate files but no domain, https is served at HOST and PORT themselves. */
export function listenAddresses({ DOMAIN, EDGE_PORT, HOST, PORT, TLS_CERT }: Settings): ListenAddresses | null {
  if (DOMAIN === undefined && TLS_CERT === undefined) return null;
  if (DOMAIN !== undefined || EDGE_PORT !== HTTPS_PORT) {
    return { tls: { hostname: EVERY_ADDRESS, port: EDGE_PORT }, plain: { hostname: HOST, port: PORT } };
  }
  return { tls: { hostname: HOST, port: PORT }, plain: { hostname: LOOPBACK, port: 0 } };
}

/** The name and port of the TURN relay for clients; null without a relay, or without a public name. */
export function turnAddress(config: Settings): { host: string; port: number } | null {
  const { DOMAIN, EDGE_PORT, PUBLIC_URL, TURN } = config;
  if (TURN === "off" || listenAddresses(config) === null) return null;
  const publicUrl = PUBLIC_URL === undefined ? null : new URL(PUBLIC_URL);
  const publicPort = publicUrl && Number(publicUrl.port || HTTPS_PORT);
  if (DOMAIN !== undefined) {
    const host = DOMAIN.toLowerCase();
    // A reverse proxy that passes TLS through may listen on another port.
    return { host, port: publicUrl?.hostname === host && publicPort ? publicPort : EDGE_PORT };
  }
  if (!publicUrl || !publicPort) return null;
  return { host: publicUrl.hostname, port: EDGE_PORT === HTTPS_PORT ? publicPort : EDGE_PORT };
}
