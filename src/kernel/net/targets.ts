import { lookup } from "node:dns/promises";
import ipaddr from "ipaddr.js";

/** An operator can allow `private` targets, but never `forbidden` ones. */
export type Target = "public" | "loopback" | "private" | "forbidden";

/** The kind of target by the text of a host, without resolving a name. */
export function targetOf(hostname: string): Target {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  // The URL parser has turned decimal, hex, octal and short forms into dotted quads.
  if (ipaddr.isValid(host)) return addressTarget(host);

  const labels = host.split(".");
  if (labels.some((label) => label === "")) return "forbidden";
  if (host === "localhost") return "loopback";
  const last = labels.at(-1) ?? "";
  if (last === "localhost") return "forbidden";
  return labels.length === 1 || last === "local" || last === "internal" ? "private" : "public";
}

const GLOBAL_IPV6 = ipaddr.IPv6.parseCIDR("2000::/3");

function addressTarget(text: string): Target {
  const address = ipaddr.process(text);
  switch (address.range()) {
    case "loopback":
      return "loopback";
    case "private":
    case "uniqueLocal":
    case "carrierGradeNat":
      return "private";
    case "unicast":
      // ipaddr.js reports every unnamed range as unicast, including `::7f00:1`, an old form of 127.0.0.1.
      return address instanceof ipaddr.IPv4 || address.match(GLOBAL_IPV6) ? "public" : "forbidden";
    default:
      return "forbidden";
  }
}

/** Resolves a host name to its IP addresses. */
export type Lookup = (hostname: string) => Promise<string[]>;

export const systemLookup: Lookup = async (hostname) =>
  (await lookup(hostname, { all: true })).map(({ address }) => address);

/** The maximum number of IP addresses of a host that are tried. */
const MAX_ADDRESSES = 4;

/**
 * The IP addresses of a URL's host to which the server may connect, IPv4 first; empty if the name resolves to others
 * only.
 */
export async function allowedAddresses(
  url: URL,
  allows: (target: Target) => boolean,
  resolve: Lookup,
): Promise<string[]> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const addresses = ipaddr.isValid(host) ? [host] : await resolve(host);
  return addresses
    .filter((address) => ipaddr.isValid(address) && allows(addressTarget(address)))
    .sort((a, b) => Number(a.includes(":")) - Number(b.includes(":")))
    .slice(0, MAX_ADDRESSES);
}
