import { lookup, resolve4, resolve6 } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";
import { isLoopback } from "../../kernel/loopback.ts";

type Resolve = (name: string) => Promise<string[]>;

type Names = {
  /** As any program of this machine would, its own file of hosts included. */
  lookUp: Resolve;
  /** As the rest of the world does. */
  askNameServers: Resolve;
};

const NAMES: Names = {
  lookUp: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  async askNameServers(name) {
    const [ipv4, ipv6] = await Promise.allSettled([inTime(resolve4(name)), inTime(resolve6(name))]);
    if (ipv4.status === "rejected" && ipv6.status === "rejected") throw ipv4.reason;
    return [ipv4, ipv6].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  },
};

/** A network without name servers must not keep a start, or the doctor, waiting. */
const NAME_SERVER_MS = 3_000;

function inTime<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject({ code: "ETIMEOUT" }), NAME_SERVER_MS);
  return Promise.race([asked, late]).finally(() => clearTimeout(timer));
}

const isOfHostsFile = (address: string) => address !== "127.0.0.1" && address !== "::1";

/** Many systems name themselves in their file of hosts, by 127.0.1.1: that says nothing of where others find them. */
export function createResolve({ lookUp, askNameServers }: Names = NAMES): Resolve {
  return async (name) => {
    const found = await lookUp(name);
    return found.every(isLoopback) && found.some(isOfHostsFile) ? askNameServers(name) : found;
  };
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
}

/** The one way to write an address, so that two of them can be compared. */
const written = (address: string) => (ipaddr.isValid(address) ? ipaddr.process(address).toString() : address);

const isPublic = (address: string) => ipaddr.isValid(address) && ipaddr.process(address).range() === "unicast";

/**
 * Whether a name leads to this machine, in a sentence when it does not. Where the machine knows no public address of
 * its own (behind a NAT) only that the name resolves can be said.
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
  const known = new Set([...announced, ...own()].map(written));
  const strangers = found.filter((address) => !known.has(written(address)));
  if (strangers.length === 0) return null;
  const publicOnes = [...known].filter(isPublic);
  if (publicOnes.length === 0) return null;
  const [is, records] = strangers.length === 1 ? ["is no address", "record"] : ["are no addresses", "records"];
  return `${domain} resolves to ${strangers.join(", ")}, which ${is} of this machine (${publicOnes.join(", ")}). Correct its ${records}, or name this machine's address in PUBLIC_IP.`;
}
