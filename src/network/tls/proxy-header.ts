import { isIP } from "node:net";
import { unmappedAddress } from "../../kernel/net/addresses.ts";
import type { ClientAddress } from "../../protocol/client-table.ts";

/** The header that a load balancer sends before a connection's own bytes (PROXY protocol, versions 1 and 2). */
type ProxyHeader = {
  /** Null for the proxy's own connections, such as health checks, and for clients other than TCP. */
  client: ClientAddress | null;
  bytes: number;
};

const SIGNATURE_2 = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
const SIGNATURE_1 = Buffer.from("PROXY ");
const MAX_LINE_BYTES = 107;
const MAX_HEADER_BYTES = 1_024;
/** A zone after `%` refers to an interface of the proxy and is rejected. */
const LINE = /^PROXY TCP([46]) ([\da-f.:]+) ([\da-f.:]+) (\d{1,5}) (\d{1,5})$/i;

/** Null when more bytes are needed, "wrong" for a malformed header. If there is no header, `bytes` is 0. */
export function readProxyHeader(data: Buffer): ProxyHeader | "wrong" | null {
  if (startsLike(data, SIGNATURE_2)) return data.length < SIGNATURE_2.length + 4 ? null : version2(data);
  if (startsLike(data, SIGNATURE_1)) return version1(data);
  return { client: null, bytes: 0 };
}

function startsLike(data: Buffer, signature: Buffer): boolean {
  const length = Math.min(data.length, signature.length);
  return data.subarray(0, length).equals(signature.subarray(0, length));
}

function version1(data: Buffer): ProxyHeader | "wrong" | null {
  const end = data.indexOf("\r\n");
  if (end < 0) return data.length < MAX_LINE_BYTES ? null : "wrong";
  if (end > MAX_LINE_BYTES - 2) return "wrong";
  const line = data.toString("latin1", 0, end);
  const bytes = end + 2;
  if (/^PROXY UNKNOWN(?: |$)/.test(line)) return { client: null, bytes };
  const [, version, source = "", destination = "", ...ports] = LINE.exec(line) ?? [];
  const isWhole = [source, destination].every((address) => isIP(address) === Number(version));
  if (!isWhole || ports.some((port) => Number(port) > 65_535)) return "wrong";
  return { client: { address: unmappedAddress(source), port: Number(ports[0]) }, bytes };
}

const LOCAL = 0x20;
const PROXIED = 0x21;
const TCP_4 = 0x11;
const TCP_6 = 0x21;
const ADDRESSES_BYTES = new Map([
  [TCP_4, 12],
  [TCP_6, 36],
]);

function version2(data: Buffer): ProxyHeader | "wrong" | null {
  const [command, family] = [data.readUInt8(12), data.readUInt8(13)];
  const bytes = 16 + data.readUInt16BE(14);
  if ((command !== LOCAL && command !== PROXIED) || bytes > MAX_HEADER_BYTES) return "wrong";
  if (data.length < bytes) return null;
  if (command === LOCAL) return { client: null, bytes };
  if (bytes < 16 + (ADDRESSES_BYTES.get(family) ?? 0)) return "wrong";
  if (family === TCP_4) {
    return { client: { address: data.subarray(16, 20).join("."), port: data.readUInt16BE(24) }, bytes };
  }
  if (family === TCP_6) {
    const groups = Array.from({ length: 8 }, (_none, group) => data.readUInt16BE(16 + group * 2).toString(16));
    return { client: { address: unmappedAddress(groups.join(":")), port: data.readUInt16BE(48) }, bytes };
  }
  return { client: null, bytes };
}
