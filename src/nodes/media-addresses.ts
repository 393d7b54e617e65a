import { lookup } from "node:dns/promises";
import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";
import type { Config } from "../kernel/config/index.ts";
import type { Log } from "../kernel/log.ts";
import { isLoopback } from "../kernel/net/addresses.ts";

type MediaAddresses = {
  /** IP addresses in the candidates of every answer. */
  announce: string[];
  /** The IP address to bind. */
  hostname: string;
};

export type AddressSource = {
  interfaces: () => NodeJS.Dict<NetworkInterfaceInfo[]>;
  resolve: (name: string) => Promise<string[]>;
};

const MACHINE: AddressSource = {
  interfaces: networkInterfaces,
  resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
};

/**
 * The IP addresses under which clients reach the media ports. Host names are resolved here, because some browsers
 * ignore candidates with names; a name that cannot be resolved is logged and skipped, so that local calls do not depend
 * on DNS.
 */
export async function mediaAddresses(config: Config, log: Log, source = MACHINE): Promise<MediaAddresses> {
  const announce = new Set<string>();
  for (const entry of config.PUBLIC_IP) {
    if (entry === "auto") for (const address of ownAddresses(config, source)) announce.add(address);
    else if (ipaddr.isValid(entry)) announce.add(entry);
    else for (const address of await resolved(entry, log, source)) announce.add(address);
  }
  if (announce.size === 0) announce.add("127.0.0.1");
  const addresses = [...announce];
  return { announce: addresses, hostname: bindAddress(addresses) };
}

function ownAddresses({ HOST, PUBLIC_URL }: Config, { interfaces }: AddressSource): string[] {
  const own = Object.values(interfaces())
    .flatMap((entries) => entries ?? [])
    .filter(({ internal, address }) => !internal && usable(address))
    .map(({ address }) => address);
  // A server for this machine only (the default) must work without a network.
  const isLocal = PUBLIC_URL === undefined && isLoopback(HOST);
  return isLocal ? ["127.0.0.1", ...own] : own;
}

async function resolved(name: string, log: Log, { resolve }: AddressSource): Promise<string[]> {
  try {
    return await resolve(name);
  } catch (err) {
    log.warn({ err, name }, "media: PUBLIC_IP cannot be resolved");
    return [];
  }
}

/** Link-local IPv6 needs a zone that a candidate cannot carry. */
function usable(address: string): boolean {
  return ipaddr.isValid(address) && ipaddr.parse(address).range() !== "linkLocal";
}

function bindAddress(announce: string[]): string {
  if (announce.every((address) => address === "127.0.0.1")) return "127.0.0.1";
  return announce.some((address) => address.includes(":")) ? "::" : "0.0.0.0";
}
