/**
 * Data messages of LiveKit clients: one protobuf `DataPacket` each. The server reads the destinations, the number and the
 * application's payload; everything else is forwarded unchanged.
 */
import { participantSid } from "../../protocol/media/livekit-sids.ts";

/** Field numbers of `DataPacket`. */
const USER = 2;
const PARTICIPANT_IDENTITY = 4;
const DESTINATION_IDENTITIES = 5;
const SEQUENCE = 16;
const PARTICIPANT_SID = 17;
/** Field numbers of the `UserPacket` in it. */
const USER_SENDER_SID = 1;
const USER_PAYLOAD = 2;
const USER_TOPIC = 4;
const USER_SENDER_IDENTITY = 5;
const USER_DESTINATIONS = 6;

const VARINT = 0;
const BYTES = 2;
const MAX_DESTINATIONS = 500;

export type DataPacket = {
  /** Identities; empty for all participants. */
  destinations: string[];
  /** 0 for clients that do not number their messages. */
  sequence: number;
  /** The application's message; null for messages of the LiveKit SDK itself. */
  user: { payload: Buffer; topic: string | null } | null;
};

export type Sender = { identity: string; participantId: string };

/** Returns null for a malformed packet. */
export function readDataPacket(data: Buffer): DataPacket | null {
  const packet: DataPacket = { destinations: [], sequence: 0, user: null };
  const readable = eachField(data, (field, value) => {
    if (field === DESTINATION_IDENTITIES && typeof value !== "number") packet.destinations.push(value.toString());
    else if (field === SEQUENCE && typeof value === "number") packet.sequence = value;
    else if (field === USER && typeof value !== "number") packet.user = readUser(value, packet.destinations);
  });
  return readable && packet.destinations.length <= MAX_DESTINATIONS ? packet : null;
}

function readUser(data: Buffer, destinations: string[]): DataPacket["user"] {
  const user: NonNullable<DataPacket["user"]> = { payload: Buffer.alloc(0), topic: null };
  eachField(data, (field, value) => {
    if (typeof value === "number") return;
    if (field === USER_PAYLOAD) user.payload = value;
    else if (field === USER_TOPIC) user.topic = value.toString();
    else if (field === USER_DESTINATIONS) destinations.push(value.toString());
  });
  return user;
}

/**
 * Returns the packet with its sender. Of a repeated field the last one counts, and repeated messages are merged, so the appended
 * fields override those of the client. Older clients expect the sender inside the user packet.
 */
export function addSender(data: Buffer, { user }: DataPacket, { identity, participantId }: Sender): Buffer {
  const sid = participantSid(participantId);
  const inner = user
    ? [message(USER, Buffer.concat([text(USER_SENDER_SID, sid), text(USER_SENDER_IDENTITY, identity)]))]
    : [];
  return Buffer.concat([data, text(PARTICIPANT_IDENTITY, identity), text(PARTICIPANT_SID, sid), ...inner]);
}

/** A message from a Stoa client, or from a backend with `from` null, for LiveKit clients. */
export function writeUserPacket(from: Sender | null, payload: string, topic: string | undefined): Buffer {
  const user = [message(USER_PAYLOAD, Buffer.from(payload))];
  if (topic !== undefined) user.push(text(USER_TOPIC, topic));
  if (!from) return message(USER, Buffer.concat(user));
  const sid = participantSid(from.participantId);
  user.push(text(USER_SENDER_SID, sid), text(USER_SENDER_IDENTITY, from.identity));
  return Buffer.concat([
    message(USER, Buffer.concat(user)),
    text(PARTICIPANT_IDENTITY, from.identity),
    text(PARTICIPANT_SID, sid),
  ]);
}

const text = (field: number, value: string) => message(field, Buffer.from(value));

function message(field: number, value: Buffer): Buffer {
  return Buffer.concat([varint((field << 3) | BYTES), varint(value.length), value]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest = Math.floor(rest / 128);
  }
  return Buffer.from([...bytes, rest]);
}

/** Returns false for a truncated field, or one of a wire type that these messages do not use. */
function eachField(data: Buffer, read: (field: number, value: number | Buffer) => void): boolean {
  let at = 0;
  const number = (): number | null => {
    let value = 0;
    for (let shift = 1; at < data.length && shift < 2 ** 56; shift *= 128) {
      const byte = data[at++] ?? 0;
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
    // A negative number has ten bytes; no field here uses one.
    while (at < data.length) if ((data[at++] ?? 0) < 128) return value;
    return null;
  };
  while (at < data.length) {
    const tag = number();
    if (tag === null) return false;
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case VARINT: {
        const value = number();
        if (value === null) return false;
        read(field, value);
        break;
      }
      case BYTES: {
        const length = number();
        if (length === null || at + length > data.length) return false;
        read(field, data.subarray(at, at + length));
        at += length;
        break;
      }
      case 1:
        at += 8;
        break;
      case 5:
        at += 4;
        break;
      default:
        return false;
    }
  }
  return at === data.length;
}
