/** SCTP packets written by hand, right or wrong. They have no checksum, because DTLS protects them. */

export const SCTP = {
  data: 0,
  init: 1,
  initAck: 2,
  sack: 3,
  heartbeat: 4,
  heartbeatAck: 5,
  abort: 6,
  error: 9,
  cookieEcho: 10,
  cookieAck: 11,
  reconfig: 130,
  forwardTsn: 192,
};
export const WHOLE = 3;
export const FIRST = 2;
export const UNORDERED = 4;
export const STRING = 51;
export const DCEP = 50;

export function chunk(type: number, body: Buffer, length = body.length + 4, flags = 0): Buffer {
  const out = Buffer.alloc((body.length + 4 + 3) & ~3);
  out.writeUInt8(type, 0);
  out.writeUInt8(flags, 1);
  out.writeUInt16BE(length, 2);
  body.copy(out, 4);
  return out;
}

export function packet(tag: number, ...chunks: Buffer[]): Buffer {
  const header = Buffer.alloc(12);
  header.writeUInt16BE(5000, 0);
  header.writeUInt16BE(5000, 2);
  header.writeUInt32BE(tag, 4);
  return Buffer.concat([header, ...chunks]);
}

type Data = { stream?: number; sequence?: number; flags?: number; protocol?: number; content?: Buffer };

export function data(
  tsn: number,
  { stream = 0, sequence = 0, flags = WHOLE, protocol = STRING, content = Buffer.alloc(4) }: Data = {},
): Buffer {
  const body = Buffer.alloc(12 + content.length);
  body.writeUInt32BE(tsn >>> 0, 0);
  body.writeUInt16BE(stream, 4);
  body.writeUInt16BE(sequence & 0xffff, 6);
  body.writeUInt32BE(protocol, 8);
  content.copy(body, 12);
  return chunk(SCTP.data, body, body.length + 4, flags);
}

export function pairs(...list: (readonly [number, number])[]): Buffer {
  const out = Buffer.alloc(4 * list.length);
  for (const [i, [a, b]] of list.entries()) {
    out.writeUInt16BE(a, 4 * i);
    out.writeUInt16BE(b, 4 * i + 2);
  }
  return out;
}

export function sack(cumulativeTsn: number, ...gaps: [number, number][]): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt32BE(cumulativeTsn >>> 0, 0);
  head.writeUInt32BE(100_000, 4);
  head.writeUInt16BE(gaps.length, 8);
  return chunk(SCTP.sack, Buffer.concat([head, pairs(...gaps)]));
}

export function forwardTsn(tsn: number, ...streams: (readonly [number, number])[]): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(tsn >>> 0, 0);
  return chunk(SCTP.forwardTsn, Buffer.concat([head, pairs(...streams)]));
}

export function init(initialTsn: number, ...parameters: Buffer[]): Buffer {
  const body = Buffer.alloc(16);
  body.writeUInt32BE(1, 0);
  body.writeUInt32BE(100_000, 4);
  body.writeUInt16BE(1_024, 8);
  body.writeUInt16BE(1_024, 10);
  body.writeUInt32BE(initialTsn >>> 0, 12);
  return chunk(SCTP.init, Buffer.concat([body, ...parameters]));
}

export const parameter = (length: number, type = 13) => Buffer.from([type >> 8, type & 255, length >> 8, length & 255]);

export const heartbeat = (...info: number[]) => chunk(SCTP.heartbeat, Buffer.from([0, 1, 0, 4 + info.length, ...info]));

/** A request to open a data channel. */
export function openChannel(label: string): Buffer {
  const out = Buffer.alloc(12 + label.length);
  out[0] = 3;
  out.writeUInt16BE(label.length, 8);
  out.write(label, 12);
  return out;
}

/** The state cookie of an INIT ACK. */
export function cookieOf(initAck: Buffer): Buffer {
  for (let at = 32; at + 4 <= initAck.length; ) {
    const length = initAck.readUInt16BE(at + 2);
    if (initAck.readUInt16BE(at) === 7) return initAck.subarray(at + 4, at + length);
    at += (length + 3) & ~3;
  }
  throw new Error("no cookie");
}
