/**
 * Data messages of LiveKit clients: one protobuf `DataPacket` each. The server reads them field by field and encodes
 * them again, so that nothing reaches others that it did not understand, and no field about the sender but its own.
 * Only agents, whose tokens a backend signs, send text for other participants.
 */
import { foreignName } from "../../protocol/ids.ts";
import { participantSid, sessionIdOf } from "../../protocol/media/livekit-sids.ts";
import {
  BYTES,
  eachField,
  eachFieldAt,
  numberOf,
  VARINT,
  type WireType,
  writeField,
  writeNumber,
  writeText,
} from "../../protocol/media/protobuf.ts";

/** Field numbers of `DataPacket`. */
const KIND = 1;
const USER = 2;
const PARTICIPANT_IDENTITY = 4;
const DESTINATION_IDENTITIES = 5;
const SEQUENCE = 16;
const PARTICIPANT_SID = 17;
/**
 * The kinds of content besides `user`: DTMF, transcription, metrics, chat message, RPC request, acknowledgement and response,
 * stream header, chunk and trailer, encrypted packet. `speaker` (3) is left out, because only the server may say who speaks.
 */
const RELAYED: ReadonlySet<number> = new Set([6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 18]);

const CHAT_MESSAGE = 9;
const CHAT_GENERATED = 6;
const STREAM_HEADER = 13;
const HEADER_OF_TEXT = 9;
const TEXT_GENERATED = 5;

const STREAM_CHUNK = 14;
const STREAM_TRAILER = 15;
const STREAM_ID = 1;

const STREAM_PARTS: ReadonlySet<number> = new Set([STREAM_HEADER, STREAM_CHUNK, STREAM_TRAILER]);

/** Field numbers of the `UserPacket` in it. */
const USER_SENDER_SID = 1;
const USER_PAYLOAD = 2;
const USER_DESTINATION_SIDS = 3;
const USER_TOPIC = 4;
const USER_SENDER_IDENTITY = 5;
const USER_DESTINATIONS = 6;
/** Id, start time, end time and nonce, which only the clients read. */
const USER_RELAYED: ReadonlyMap<number, WireType> = new Map([
  [8, BYTES],
  [9, VARINT],
  [10, VARINT],
  [11, BYTES],
]);

export const userNonce = (nonce: Uint8Array) => writeField(11, BYTES, nonce);

const MAX_DESTINATIONS = 500;
/** A packet has its destinations, and at most one field of each other kind. */
const MAX_FIELDS = MAX_DESTINATIONS + 32;

export type DataPacket = {
  /** Identities; with both lists empty the packet is for all participants. */
  destinations: string[];
  /** Participant ids, which older clients send instead of identities. */
  destinationIds: string[];
  /** 0 if the client does not number its messages. */
  sequence: number;
  isLossy: boolean;
  /** The identity that the sender names as its own, which only an agent may choose; empty for none. */
  namedSender: string;
  content: UserContent | { field: number; body: Buffer };
};

/** The content of an application's message; all other contents are those of the LiveKit SDK itself. */
type UserContent = { payload: Buffer; topic: string | null; more: Uint8Array[] };

export const isStreamPart = (content: DataPacket["content"]) => !isUser(content) && STREAM_PARTS.has(content.field);

export type Sender = { identity: string; participantId: string };

export const isUser = (content: DataPacket["content"]): content is UserContent => "payload" in content;

/** Appends the reader's own number to a packet. Decoders take the last value, so it replaces the sender's number; 0 means none. */
export const numbered = (packet: Buffer, seq: number) => Buffer.concat([packet, writeNumber(SEQUENCE, seq)]);

/** Returns null for a malformed packet, one without content, and one whose content is not relayed. */
export function readDataPacket(data: Buffer): DataPacket | null {
  let content: DataPacket["content"] | null = null;
  const packet = {
    destinations: [] as string[],
    destinationIds: [] as string[],
    sequence: 0,
    isLossy: false,
    namedSender: "",
  };
  let fields = 0;
  const isReadable = eachField(data, (field, wire, value) => {
    fields += 1;
    if (fields > MAX_FIELDS) return false;
    if (field === DESTINATION_IDENTITIES && wire === BYTES) packet.destinations.push(value.toString());
    else if (field === PARTICIPANT_IDENTITY && wire === BYTES) packet.namedSender = value.toString();
    else if (field === SEQUENCE && wire === VARINT) packet.sequence = numberOf(value) % 2 ** 32;
    else if (field === KIND && wire === VARINT) packet.isLossy = numberOf(value) === 1;
    else if ((field === USER || RELAYED.has(field)) && wire === BYTES) {
      // If a content is repeated, some decoders merge the two and others take the last.
      if (content) return false;
      content = field === USER ? readUser(value, packet) : { field, body: value };
      if (!content) return false;
    }
    return true;
  });
  const destinations = packet.destinations.length + packet.destinationIds.length;
  return isReadable && content && destinations <= MAX_DESTINATIONS ? { ...packet, content } : null;
}

function readUser(data: Buffer, packet: Pick<DataPacket, "destinations" | "destinationIds">): UserContent | null {
  const user: UserContent = { payload: Buffer.alloc(0), topic: null, more: [] };
  let fields = 0;
  const isReadable = eachField(data, (field, wire, value) => {
    fields += 1;
    if (fields > MAX_FIELDS) return false;
    if (field === USER_PAYLOAD && wire === BYTES) user.payload = value;
    else if (field === USER_TOPIC && wire === BYTES) user.topic = value.toString();
    else if (field === USER_DESTINATIONS && wire === BYTES) packet.destinations.push(value.toString());
    else if (field === USER_DESTINATION_SIDS && wire === BYTES)
      packet.destinationIds.push(sessionIdOf(value.toString()) ?? "");
    else if (USER_RELAYED.get(field) === wire) user.more.push(writeField(field, wire, value));
    return true;
  });
  return isReadable ? user : null;
}

/** With more at the same time, the rest of the oldest one is sent in the agent's own name: it may never have been ended. */
const MAX_STREAMS_FOR_OTHERS = 250;

/** The streams that an agent sends for others: all parts of one have the sender that its header names. */
export class StreamsForOthers {
  readonly #senders = new Map<string, string>();

  nameSender(packet: DataPacket): void {
    const { content } = packet;
    if (isUser(content) || !isStreamPart(content)) return;
    let id = "";
    eachField(content.body, (field, wire, value) => {
      if (field === STREAM_ID && wire === BYTES) id = value.toString();
      return true;
    });
    if (content.field === STREAM_HEADER) {
      this.#senders.delete(id);
      if (packet.namedSender === "") return;
      const [oldest] = this.#senders.keys();
      if (oldest !== undefined && this.#senders.size >= MAX_STREAMS_FOR_OTHERS) this.#senders.delete(oldest);
      this.#senders.set(id, packet.namedSender);
      return;
    }
    packet.namedSender = this.#senders.get(id) ?? "";
    if (content.field === STREAM_TRAILER) this.#senders.delete(id);
  }
}

/** The text that an agent sends for another participant, such as what that has said; null for all other packets. */
export function textForAnother(packet: DataPacket, own: string): { content: DataPacket["content"]; by: string } | null {
  const { content, namedSender } = packet;
  if (isUser(content) || namedSender === own || foreignName(namedSender) === null) return null;
  const body = asGenerated(content);
  return body && { content: { field: content.field, body }, by: namedSender };
}

/** A chat message or the header of a text stream, marked as generated, or another part of a stream; null for other contents. */
function asGenerated({ field, body }: { field: number; body: Buffer }): Buffer | null {
  if (field === CHAT_MESSAGE) return Buffer.concat([body, writeNumber(CHAT_GENERATED, 1)]);
  if (field === STREAM_CHUNK || field === STREAM_TRAILER) return body;
  if (field !== STREAM_HEADER) return null;
  let text: { from: number; start: number; end: number } | null = null;
  let from = 0;
  const isReadable = eachFieldAt(body, 0, body.length, (part, wire, start, end) => {
    if (part === HEADER_OF_TEXT && wire === BYTES) text = { from, start, end };
    from = end;
    return true;
  });
  return isReadable && text ? withGenerated(body, text) : null;
}

function withGenerated(header: Buffer, { from, start, end }: { from: number; start: number; end: number }): Buffer {
  const marked = Buffer.concat([header.subarray(start, end), writeNumber(TEXT_GENERATED, 1)]);
  return Buffer.concat([header.subarray(0, from), writeField(HEADER_OF_TEXT, BYTES, marked), header.subarray(end)]);
}

/**
 * The packet with its true sender, or as `by` another participant if an agent may name it; older clients expect the
 * sender inside the user packet. `from` is null for a backend.
 */
export function writeDataPacket(
  from: Sender | null,
  packet: Omit<DataPacket, "destinationIds" | "namedSender">,
  by = from?.identity,
): Buffer {
  const { content, destinations, sequence, isLossy } = packet;
  const sid = from && participantSid(from.participantId);
  const body = isUser(content)
    ? writeField(USER, BYTES, writeUser(content, from, sid))
    : writeField(content.field, BYTES, content.body);
  return Buffer.concat([
    ...(isLossy ? [writeNumber(KIND, 1)] : []),
    body,
    ...(by === undefined ? [] : [writeText(PARTICIPANT_IDENTITY, by)]),
    ...destinations.map((identity) => writeText(DESTINATION_IDENTITIES, identity)),
    ...(sequence > 0 ? [writeNumber(SEQUENCE, sequence)] : []),
    ...(sid ? [writeText(PARTICIPANT_SID, sid)] : []),
  ]);
}

function writeUser({ payload, topic, more }: UserContent, from: Sender | null, sid: string | null): Buffer {
  return Buffer.concat([
    ...(sid ? [writeText(USER_SENDER_SID, sid)] : []),
    writeField(USER_PAYLOAD, BYTES, payload),
    ...(topic === null ? [] : [writeText(USER_TOPIC, topic)]),
    ...(from ? [writeText(USER_SENDER_IDENTITY, from.identity)] : []),
    ...more,
  ]);
}
