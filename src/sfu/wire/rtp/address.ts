// Addresses as 16 bytes, IPv4 in its mapped form (::ffff:a.b.c.d), as native code has them.

import ipaddr from "ipaddr.js";

/** Null for what only the socket itself can read: an address of one network link (`fe80::1%eth0`). */
export function addressWords(text: string): Uint32Array | null {
  if (text.includes("%") || !ipaddr.isValid(text)) return null;
  const address = ipaddr.parse(text);
  const v6 = address instanceof ipaddr.IPv4 ? address.toIPv4MappedAddress() : address;
  return new Uint32Array(Uint8Array.from(v6.toByteArray()).buffer);
}
