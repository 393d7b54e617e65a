import { networkInterfaces } from "node:os";

const ANY = ["0.0.0.0", "::"];

/** Addresses that can be opened: a server on every interface listens on each of them, and 0.0.0.0 is none. */
export function reachableUrls(url: string, bound: string): string[] {
  if (!ANY.includes(bound)) return [url];
  const { protocol, port } = new URL(url);
  const addresses = Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    // Link-local addresses need a zone that no browser takes.
    .filter(({ family, address }) => (bound === "::" || family === "IPv4") && !address.startsWith("fe80:"))
    .toSorted((a, b) => Number(b.internal) - Number(a.internal))
    .map(({ address, family }) => (family === "IPv6" ? `[${address}]` : address));
  return addresses.map((address) => `${protocol}//${address}:${port}`);
}
