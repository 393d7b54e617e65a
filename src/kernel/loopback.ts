import ipaddr from "ipaddr.js";

/** A name or an address, as written in a configuration, that only this machine itself can reach. */
export function isLoopback(host: string): boolean {
  const bare = host.replaceAll(/[[\]]/g, "");
  return bare === "localhost" || (ipaddr.isValid(bare) && ipaddr.process(bare).range() === "loopback");
}
