/** Transport addresses, and their masked (XOR) form in TURN messages (RFC 8489 §14.2). */
import ipaddr from "ipaddr.js";
import { hostInUrl } from "../../kernel/net/addresses.ts";
import { STUN_HEADER_BYTES, xorAddress, xorPortAndAddress } from "../../sfu/wire/stun/stun.ts";

export type Address = { readonly address: string; readonly port: number };

const FAMILY = { ipv4: 1, ipv6: 2 } as const;
export type Family = keyof typeof FAMILY;

/** Addresses are compared in this form, in which `::ffff:10.0.0.1` is `10.0.0.1`. */
export function canonical(address: string): string {
  return ipaddr.process(address).toString();
}

export function addressText({ address, port }: Address): string {
  return `${hostInUrl(address)}:${port}`;
}

export function familyOf(address: string): Family {
  return address.includes(":") ? "ipv6" : "ipv4";
}

export function familyNamed(number: number): Family | undefined {
  if (number === FAMILY.ipv4) return "ipv4";
  return number === FAMILY.ipv6 ? "ipv6" : undefined;
}

export function maskAddress({ address, port }: Address, transaction: Uint8Array): Uint8Array {
  return xorAddress(Uint8Array.from(ipaddr.process(address).toByteArray()), port, transaction);
}

export function unmaskAddress(value: Buffer, transaction: Uint8Array): Address | undefined {
  const family = value.length > 1 ? familyNamed(value.readUInt8(1)) : undefined;
  if (family === undefined || value.length !== (family === "ipv4" ? 8 : 20)) return undefined;
  const plain = Buffer.from(xorPortAndAddress(value, transaction));
  return { address: ipaddr.fromByteArray([...plain.subarray(4)]).toString(), port: plain.readUInt16BE(2) };
}

/**
 * The key of a peer, made without decoding the peer address, which every packet of Firefox contains. A masked IPv4
 * address is the same in every message; an IPv6 address is masked with the transaction id and has to be decoded.
 */
export function peerKey(value: Buffer, message: Buffer): number | string {
  if (value.length === 8) return value.readUInt16BE(2) * 0x1_0000_0000 + value.readUInt32BE(4);
  const address = unmaskAddress(value, message.subarray(8, STUN_HEADER_BYTES));
  return address === undefined ? "" : addressText(address);
}
