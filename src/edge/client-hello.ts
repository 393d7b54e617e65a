/**
 * The application protocols that a TLS client offers in its first message (RFC 8446 §4.1.2, RFC 7301). Null: more bytes
 * are needed. Whatever cannot be read offers nothing.
 */
export function offeredProtocols(data: Buffer): string[] | null {
  const hello = handshakeBytes(data);
  if (hello === null || hello === "unreadable") return hello === null ? null : [];
  try {
    return protocolsIn(hello);
  } catch {
    return [];
  }
}

const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const ALPN_EXTENSION = 16;
const MAX_HELLO_BYTES = 16_384;

/** The message may be spread over several records. */
function handshakeBytes(data: Buffer): Buffer | "unreadable" | null {
  const parts: Buffer[] = [];
  let collected = 0;
  for (let at = 0; ; ) {
    if (data.length < at + 5) return (data[at] ?? HANDSHAKE_RECORD) === HANDSHAKE_RECORD ? null : "unreadable";
    if (data[at] !== HANDSHAKE_RECORD) return "unreadable";
    const length = data.readUInt16BE(at + 3);
    const part = data.subarray(at + 5, at + 5 + length);
    parts.push(part);
    collected += part.length;
    const message = Buffer.concat(parts);
    if (message.length >= 4) {
      if (message[0] !== CLIENT_HELLO) return "unreadable";
      const size = 4 + message.readUIntBE(1, 3);
      if (size > MAX_HELLO_BYTES) return "unreadable";
      if (message.length >= size) return message.subarray(4, size);
    }
    if (part.length < length || collected > MAX_HELLO_BYTES) return collected > MAX_HELLO_BYTES ? "unreadable" : null;
    at += 5 + length;
  }
}

/** Out-of-range reads throw, and are caught above. */
function protocolsIn(hello: Buffer): string[] {
  let at = 2 + 32;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  const end = at + 2 + hello.readUInt16BE(at);
  at += 2;
  while (at + 4 <= end) {
    const type = hello.readUInt16BE(at);
    const size = hello.readUInt16BE(at + 2);
    if (type === ALPN_EXTENSION) return namesIn(hello.subarray(at + 4 + 2, at + 4 + size));
    at += 4 + size;
  }
  return [];
}

function namesIn(list: Buffer): string[] {
  const names: string[] = [];
  for (let at = 0; at < list.length; at += 1 + list.readUInt8(at)) {
    names.push(list.toString("latin1", at + 1, at + 1 + list.readUInt8(at)));
  }
  return names;
}
