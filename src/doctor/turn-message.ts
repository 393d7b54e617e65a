/** As much of TURN (RFC 8656) as it takes to ask for a relay and give it back. */
import { createHash, createHmac, randomBytes } from "node:crypto";

const COOKIE = 0x2112a442;
const HEADER_BYTES = 20;

export const TURN_TYPE = { allocate: 0x0003, refresh: 0x0004, allocated: 0x0103, refused: 0x0113 } as const;

const ATTRIBUTE = {
  username: 0x0006,
  messageIntegrity: 0x0008,
  errorCode: 0x0009,
  lifetime: 0x000d,
  realm: 0x0014,
  nonce: 0x0015,
  relayedAddress: 0x0016,
  requestedTransport: 0x0019,
} as const;

/** UDP towards the other side, whatever leads to the TURN server. */
const UDP = Buffer.from([17, 0, 0, 0]);

export type TurnCredentials = { username: string; password: string; realm: string; nonce: string };

export type TurnAnswer = {
  type: number;
  errorCode: number | null;
  realm: string;
  nonce: string;
  /** Null unless a relay was granted. */
  relay: string | null;
};

export function writeAllocate(credentials: TurnCredentials | null): Buffer {
  return write(TURN_TYPE.allocate, [[ATTRIBUTE.requestedTransport, UDP]], credentials);
}

/** A lifetime of zero gives the relay back. */
export function writeRelease(credentials: TurnCredentials): Buffer {
  return write(TURN_TYPE.refresh, [[ATTRIBUTE.lifetime, Buffer.alloc(4)]], credentials);
}

function write(type: number, attributes: [number, Buffer][], credentials: TurnCredentials | null): Buffer {
  const named: [number, Buffer][] = credentials
    ? [
        [ATTRIBUTE.username, Buffer.from(credentials.username)],
        [ATTRIBUTE.realm, Buffer.from(credentials.realm)],
        [ATTRIBUTE.nonce, Buffer.from(credentials.nonce)],
      ]
    : [];
  const body = Buffer.concat([...attributes, ...named].map(([name, value]) => attributeOf(name, value)));
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt16BE(type, 0);
  header.writeUInt16BE(body.length + (credentials ? 24 : 0), 2);
  header.writeUInt32BE(COOKIE, 4);
  randomBytes(12).copy(header, 8);
  const message = Buffer.concat([header, body]);
  if (!credentials) return message;
  const { username, realm, password } = credentials;
  const key = createHash("md5").update(`${username}:${realm}:${password}`).digest();
  const integrity = createHmac("sha1", key).update(message).digest();
  return Buffer.concat([message, attributeOf(ATTRIBUTE.messageIntegrity, integrity)]);
}

function attributeOf(name: number, value: Buffer): Buffer {
  const attribute = Buffer.alloc(4 + Math.ceil(value.length / 4) * 4);
  attribute.writeUInt16BE(name, 0);
  attribute.writeUInt16BE(value.length, 2);
  value.copy(attribute, 4);
  return attribute;
}

/** Undefined until the whole message is there, which over TCP may take several pieces. */
export function readAnswer(data: Buffer): TurnAnswer | undefined {
  if (data.length < HEADER_BYTES || data.readUInt32BE(4) !== COOKIE) return undefined;
  const end = HEADER_BYTES + data.readUInt16BE(2);
  if (data.length < end) return undefined;
  const answer: TurnAnswer = { type: data.readUInt16BE(0), errorCode: null, realm: "", nonce: "", relay: null };
  for (let at = HEADER_BYTES; at + 4 <= end; ) {
    const size = data.readUInt16BE(at + 2);
    const value = data.subarray(at + 4, at + 4 + size);
    readAttribute(answer, data.readUInt16BE(at), value);
    at += 4 + Math.ceil(size / 4) * 4;
  }
  return answer;
}

function readAttribute(answer: TurnAnswer, name: number, value: Buffer): void {
  switch (name) {
    case ATTRIBUTE.errorCode:
      if (value.length >= 4) answer.errorCode = (value.readUInt8(2) & 7) * 100 + value.readUInt8(3);
      break;
    case ATTRIBUTE.realm:
      answer.realm = value.toString();
      break;
    case ATTRIBUTE.nonce:
      answer.nonce = value.toString();
      break;
    case ATTRIBUTE.relayedAddress:
      answer.relay = relayOf(value);
      break;
  }
}

/** IPv6 relays are only told by their kind: nobody needs the address itself. */
function relayOf(value: Buffer): string {
  if (value.length !== 8) return "an IPv6 relay";
  const port = value.readUInt16BE(2) ^ (COOKIE >>> 16);
  const address = (value.readUInt32BE(4) ^ COOKIE) >>> 0;
  return `${[24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join(".")}:${port}`;
}
