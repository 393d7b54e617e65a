/**
 * The application protocols that a ClientHello offers (RFC 8446 §4.1.2, RFC 7301); null when more bytes are needed. A
 * malformed message offers none.
 */
export function offeredProtocols(data: Buffer): string[] | null {
  const hello = handshakeBytes(data);
  if (hello === null) return null;
  if (hello === "unreadable") return [];
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
/** Most clients use one record, and some proxies split it into a few. */
const MAX_RECORDS = 16;
const RECORD_HEADER_BYTES = 5;

/**
 * The message may span several records. It is parsed again whenever bytes arrive, so that thousands of records would
 * block the thread for seconds.
 */
function handshakeBytes(data: Buffer): Buffer | "unreadable" | null {
  let message = Buffer.alloc(0);
  let at = 0;
  for (let records = 0; records < MAX_RECORDS; records++) {
    if (data.length < at + RECORD_HEADER_BYTES) {
      return (data[at] ?? HANDSHAKE_RECORD) === HANDSHAKE_RECORD ? null : "unreadable";
    }
    const length = data.readUInt16BE(at + 3);
    if (data[at] !== HANDSHAKE_RECORD || length === 0) return "unreadable";
    at += RECORD_HEADER_BYTES;
    message = Buffer.concat([message, data.subarray(at, at + length)]);
    if (message.length >= 4) {
      const size = 4 + message.readUIntBE(1, 3);
      if (message[0] !== CLIENT_HELLO || size > MAX_HELLO_BYTES) return "unreadable";
      if (message.length >= size) return message.subarray(4, size);
    }
    at += length;
    if (at > data.length) return null;
  }
  return "unreadable";
}

/** Out-of-range reads throw; the caller catches them. */
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
