import { StoaError } from "./errors.ts";

/** Nobody answers at the address, or the browser did not let the page ask. */
export function unreachable(url: string, cause?: unknown): StoaError {
  const { hostname } = new URL(url);
  if (!isPrivate(hostname) || typeof location === "undefined" || isPrivate(location.hostname)) {
    return new StoaError("UNREACHABLE", "network", "The server cannot be reached.", { cause });
  }
  return new StoaError(
    "PRIVATE_ADDRESS",
    "network",
    `${hostname} is an address of a private network, and this page comes from the public one: browsers ask for permission, or refuse, before such a page may connect. Allow this site to reach devices on the local network, open the page from that network, or give the server a public address. If it is allowed already, the server cannot be reached.`,
    { cause },
  );
}

/** Loopback, link-local and private ranges, and the names that lead to them. */
const PRIVATE_NAMES = /(^|\.)(localhost|local|internal|home\.arpa)$/;
const PRIVATE_IPV4 = /^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\./;
const PRIVATE_IPV6 = /^\[(::1\]|f[cd]|fe[89ab])/;

function isPrivate(hostname: string): boolean {
  return [PRIVATE_NAMES, PRIVATE_IPV4, PRIVATE_IPV6].some((range) => range.test(hostname));
}
