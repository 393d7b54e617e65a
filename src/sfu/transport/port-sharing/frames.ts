/** What the processes that share a port send each other over loopback, each in one RFC 4571 frame. */

const KIND = { hello: 1, keys: 2, joined: 3, datagram: 4 } as const;
export const TOKEN_BYTES = 16;
/** As many keys as fit into a frame of tcp.ts, which holds 2,048 bytes. */
const KEYS_PER_FRAME = 480;
const MAX_ADDRESS_BYTES = 64;
/** Any datagram that fits an Ethernet frame; jumbo frames are not relayed. */
export const MAX_RELAYED_BYTES = 1_960;

export type Frame =
  /** The first frame in both directions. `ordinal` counts the processes that ever shared the port; 0 before a process has joined. `sockets` are those of the port in the order of the kernel. */
  | { kind: "hello"; token: Buffer; ordinal: number; sockets: number[] }
  /** The keys of the addresses that the sender serves, in parts. */
  | { kind: "keys"; isFirst: boolean; isLast: boolean; keys: number[] }
  /** The sender has bound the port. */
  | { kind: "joined"; ordinal: number }
  | { kind: "datagram"; port: number; address: string; data: Buffer };

export function helloFrame(token: Buffer, ordinal: number, sockets: readonly number[]): Buffer {
  const frame = Buffer.alloc(1 + TOKEN_BYTES + 4 + sockets.length * 4);
  frame[0] = KIND.hello;
  token.copy(frame, 1);
  for (const [i, value] of [ordinal, ...sockets].entries()) frame.writeUInt32BE(value, 1 + TOKEN_BYTES + i * 4);
  return frame;
}

export function joinedFrame(ordinal: number): Buffer {
  const frame = Buffer.alloc(5);
  frame[0] = KIND.joined;
  frame.writeUInt32BE(ordinal, 1);
  return frame;
}

export function keysFrames(keys: readonly number[]): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at === 0 || at < keys.length; at += KEYS_PER_FRAME) {
    const part = keys.slice(at, at + KEYS_PER_FRAME);
    const frame = Buffer.alloc(3 + part.length * 4);
    frame[0] = KIND.keys;
    frame[1] = at === 0 ? 1 : 0;
    frame[2] = at + KEYS_PER_FRAME >= keys.length ? 1 : 0;
    for (const [i, key] of part.entries()) frame.writeUInt32BE(key, 3 + i * 4);
    frames.push(frame);
  }
  return frames;
}

export function datagramFrame(data: Uint8Array, port: number, address: string): Buffer {
  const frame = Buffer.allocUnsafe(4 + address.length + data.length);
  frame[0] = KIND.datagram;
  frame.writeUInt16BE(port, 1);
  frame[3] = frame.write(address, 4, "latin1");
  frame.set(data, 4 + address.length);
  return frame;
}

/** Returns null for a malformed frame. */
export function parseFrame(frame: Buffer): Frame | null {
  switch (frame[0]) {
    case KIND.hello: {
      const numbers = words(frame, 1 + TOKEN_BYTES);
      const [ordinal, ...sockets] = numbers ?? [];
      if (ordinal === undefined) return null;
      return { kind: "hello", token: frame.subarray(1, 1 + TOKEN_BYTES), ordinal, sockets };
    }
    case KIND.keys: {
      const keys = words(frame, 3);
      return keys && { kind: "keys", isFirst: frame[1] === 1, isLast: frame[2] === 1, keys };
    }
    case KIND.joined:
      return frame.length === 5 ? { kind: "joined", ordinal: frame.readUInt32BE(1) } : null;
    case KIND.datagram: {
      const addressBytes = frame[3] ?? 0;
      const at = 4 + addressBytes;
      if (addressBytes === 0 || addressBytes > MAX_ADDRESS_BYTES || frame.length <= at) return null;
      const address = frame.toString("latin1", 4, at);
      return { kind: "datagram", port: frame.readUInt16BE(1), address, data: frame.subarray(at) };
    }
    default:
      return null;
  }
}

function words(frame: Buffer, from: number): number[] | null {
  if (frame.length < from || (frame.length - from) % 4 !== 0) return null;
  return Array.from({ length: (frame.length - from) / 4 }, (_, i) => frame.readUInt32BE(from + i * 4));
}
