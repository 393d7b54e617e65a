import ipaddr from "ipaddr.js";

/** An address as native code has it: 16 bytes, IPv4 mapped (::ffff:a.b.c.d). Null for one with a zone (`fe80::1%eth0`). */
export function addressWords(text: string): Uint32Array | null {
  if (text.includes("%") || !ipaddr.isValid(text)) return null;
  const address = ipaddr.parse(text);
  const v6 = address instanceof ipaddr.IPv4 ? address.toIPv4MappedAddress() : address;
  return new Uint32Array(Uint8Array.from(v6.toByteArray()).buffer);
}
