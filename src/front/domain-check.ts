import { lookup } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";

type Resolve = (name: string) => Promise<string[]>;

const resolveName: Resolve = async (name) => (await lookup(name, { all: true })).map(({ address }) => address);

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
}

const isPublic = (address: string) => ipaddr.isValid(address) && ipaddr.process(address).range() === "unicast";

/**
 * Whether a name leads to this machine, in a sentence when it does not. Where the machine knows no public address of
 * its own (behind a NAT) only that the name resolves can be said.
 */
export async function domainProblem(
  domain: string,
  announced: readonly string[],
  { resolve = resolveName, own = interfaceAddresses } = {},
): Promise<string | null> {
  const found = await resolve(domain).catch((error: { code?: string }) => error.code ?? "unknown");
  if (typeof found === "string") {
    return `${domain} cannot be resolved (${found}). Point its A or AAAA record at this machine.`;
  }
  const known = new Set([...announced, ...own()].map((address) => address.toLowerCase()));
  const strangers = found.filter((address) => !known.has(address.toLowerCase()));
  if (strangers.length === 0) return null;
  const publicOnes = [...known].filter(isPublic);
  if (publicOnes.length === 0) return null;
  const [is, records] = strangers.length === 1 ? ["is no address", "record"] : ["are no addresses", "records"];
  return `${domain} resolves to ${strangers.join(", ")}, which ${is} of this machine (${publicOnes.join(", ")}). Correct its ${records}, or name this machine's address in PUBLIC_IP.`;
}
