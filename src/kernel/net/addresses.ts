import ipaddr from "ipaddr.js";

type Address = ReturnType<typeof ipaddr.process>;

/**
 * The address of a client whose connection was reset before the address could be read. It is in no range, so it is
 * never trusted.
 */
export const UNKNOWN_ADDRESS = "unknown";

/** Converts IPv4-mapped addresses: `::ffff:10.0.0.1` and `10.0.0.1` are the same client. */
export function unmappedAddress(address: string): string {
  if (!address.includes(":")) return address;
  return ipaddr.isValid(address) ? ipaddr.process(address).toString() : address;
}

/** The key of a budget per IP address. With IPv6 it is the /64 prefix, because every client has a whole prefix. */
export function rateLimitKey(ip: string): string {
  if (!ip.includes(":") || !ipaddr.IPv6.isValid(ip)) return ip;
  const network = ipaddr.IPv6.parse(ip).parts.slice(0, 4);
  return `${network.map((part) => part.toString(16)).join(":")}::/64`;
}

/** Returns a function that checks whether an IP address is in one of the ranges. */
export function createRangeCheck(ranges: readonly string[]): (address: string) => boolean {
  if (ranges.length === 0) return () => false;
  const parsed = ranges.map(parseRange);
  return (address) =>
    ipaddr.isValid(address) && parsed.some(([range, bits]) => inRange(ipaddr.process(address), range, bits));
}

function parseRange(entry: string): [Address, number] {
  if (entry.includes("/")) return ipaddr.parseCIDR(entry);
  const address = ipaddr.process(entry);
  return [address, address.kind() === "ipv4" ? 32 : 128];
}

function inRange(address: Address, range: Address, bits: number): boolean {
  return address.kind() === range.kind() && address.match(range, bits);
}

/** The host as it is written in a URL: an IPv6 address in brackets. */
export function hostInUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** Whether a configured host name or IP address can be reached only from this machine. */
export function isLoopback(host: string): boolean {
  const bare = host.replaceAll(/[[\]]/g, "");
  return bare === "localhost" || (ipaddr.isValid(bare) && ipaddr.process(bare).range() === "loopback");
}
