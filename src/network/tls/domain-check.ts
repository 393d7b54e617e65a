import { lookup, resolve4, resolve6 } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";
import { isLoopback } from "../../kernel/net/addresses.ts";

type Resolve = (name: string) => Promise<string[]>;

type Resolvers = {
  /** Resolves like other programs of this machine, using its hosts file. */
  lookUp: Resolve;
  /** Resolves like other machines, using name servers only. */
  askNameServers: Resolve;
};

const RESOLVERS: Resolvers = {
  lookUp: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  async askNameServers(name) {
    const [ipv4, ipv6] = await Promise.allSettled([withTimeout(resolve4(name)), withTimeout(resolve6(name))]);
    if (ipv4.status === "rejected" && ipv6.status === "rejected") throw ipv4.reason;
    return [ipv4, ipv6].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  },
};

/** A network without name servers must not delay a start or `stoa doctor`. */
const NAME_SERVER_TIMEOUT_MS = 3_000;

function withTimeout<Answer>(answer: Promise<Answer>): Promise<Answer> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject({ code: "ETIMEOUT" }), NAME_SERVER_TIMEOUT_MS);
  return Promise.race([answer, late]).finally(() => clearTimeout(timer));
}

const isFromHostsFile = (address: string) => address !== "127.0.0.1" && address !== "::1";

/** Many systems have their own name as 127.0.1.1 in the hosts file, which other machines do not see. */
export function createResolve({ lookUp, askNameServers }: Resolvers = RESOLVERS): Resolve {
  return async (name) => {
    const found = await lookUp(name);
    return found.every(isLoopback) && found.some(isFromHostsFile) ? askNameServers(name) : found;
  };
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
}

const canonical = (address: string) => (ipaddr.isValid(address) ? ipaddr.process(address).toString() : address);

const isPublic = (address: string) => ipaddr.isValid(address) && ipaddr.process(address).range() === "unicast";

/**
 * An error message when the name does not resolve to this machine, otherwise null. A machine without a public IP
 * address (behind a NAT) can only check that the name resolves.
 */
export async function domainProblem(
  domain: string,
  announced: readonly string[],
  { resolve = createResolve(), own = interfaceAddresses } = {},
): Promise<string | null> {
  const found = await resolve(domain).catch((error: { code?: string }) => error.code ?? "unknown");
  if (typeof found === "string") {
    return `${domain} cannot be resolved (${found}). Point its A or AAAA record at this machine.`;
  }
  const known = new Set([...announced, ...own()].map(canonical));
  const strangers = found.filter((address) => !known.has(canonical(address)));
  if (strangers.length === 0) return null;
  const publicOnes = [...known].filter(isPublic);
  if (publicOnes.length === 0) return null;
  const [is, records] = strangers.length === 1 ? ["is no address", "record"] : ["are no addresses", "records"];
  return `${domain} resolves to ${strangers.join(", ")}, which ${is} of this machine (${publicOnes.join(", ")}). Correct its ${records}, or name this machine's address in PUBLIC_IP.`;
}
