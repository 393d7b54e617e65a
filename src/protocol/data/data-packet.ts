/** The fields of LiveKit's `DataPacket` that clients write and read: messages, streams and requests. */
import { BYTES, concat, eachField, numberOf, VARINT, writeField, writeNumber, writeText } from "../media/protobuf.ts";

/** An application's message. */
type UserContent = { payload?: Uint8Array; topic?: string };

export type StreamHeader = {
  streamId?: string;
  timestamp?: number;
  topic?: string;
  mimeType?: string;
  /** The length in bytes; absent while the sender does not know it. */
  totalLength?: number;
  attributes?: Record<string, string>;
  /** Exactly one of `text` and `file` is present. */
  text?: object;
  file?: { name?: string };
  /** Not 0 for compressed content, which is only sent to clients that ask for it. */
  compression?: number;
  /** 1 if the sender waits for credit. Decoders of other clients skip the field. */
  credited?: number;
};

export type RpcFailure = { code?: number; message?: string; data?: string };

export type PacketContent = {
  user?: UserContent;
  request?: {
    id?: string;
    method?: string;
    payload?: string;
    timeoutMs?: number;
    version?: number;
    /** 1 if an early response needs no acknowledgement. Decoders of other clients skip the field. */
    lateAck?: number;
  };
  requestAck?: { id?: string };
  response?: { id?: string; payload?: string; error?: RpcFailure };
  header?: StreamHeader;
  chunk?: { streamId?: string; index?: number; content?: Uint8Array };
  /** A reason means that the sender ended the stream early. */
  trailer?: { streamId?: string; reason?: string; attributes?: Record<string, string> };
};

/** Content that only participants with the key can read. */
export type EncryptedContent = { type?: number; iv?: Uint8Array; keyIndex?: number; value?: Uint8Array };

export type DataPacket = PacketContent & {
  /** 1 for a lossy packet. */
  kind?: number;
  /** The sender's identity, which the server sets; absent for a backend. */
  from?: string;
  /** The identities of the receivers; absent for all. */
  to?: string[];
  sequence?: number;
  /** Present instead of any other content. */
  encrypted?: EncryptedContent;
};

type Kind = "text" | "texts" | "bytes" | "number" | "map" | Fields;
export type Fields = { readonly [name: string]: readonly [field: number, kind: Kind] };

const ENTRY = { key: [1, "text"], value: [2, "text"] } as const;

const USER: Fields = { payload: [2, "bytes"], topic: [4, "text"] };
const REQUEST: Fields = {
  id: [1, "text"],
  method: [2, "text"],
  payload: [3, "text"],
  timeoutMs: [4, "number"],
  version: [5, "number"],
  lateAck: [1_001, "number"],
};
const REQUEST_ACK: Fields = { id: [1, "text"] };
const RESPONSE: Fields = {
  id: [1, "text"],
  payload: [2, "text"],
  error: [3, { code: [1, "number"], message: [2, "text"], data: [3, "text"] }],
};
const HEADER: Fields = {
  streamId: [1, "text"],
  timestamp: [2, "number"],
  topic: [3, "text"],
  mimeType: [4, "text"],
  totalLength: [5, "number"],
  attributes: [8, "map"],
  text: [9, {}],
  file: [10, { name: [1, "text"] }],
  compression: [12, "number"],
  credited: [1_001, "number"],
};
const CHUNK: Fields = { streamId: [1, "text"], index: [2, "number"], content: [3, "bytes"] };
const TRAILER: Fields = { streamId: [1, "text"], reason: [2, "text"], attributes: [3, "map"] };

/** @internal */
export const PACKET = {
  kind: [1, "number"],
  user: [2, USER],
  from: [4, "text"],
  to: [5, "texts"],
  request: [10, REQUEST],
  requestAck: [11, REQUEST_ACK],
  response: [12, RESPONSE],
  header: [13, HEADER],
  chunk: [14, CHUNK],
  trailer: [15, TRAILER],
  sequence: [16, "number"],
  encrypted: [18, { type: [1, "number"], iv: [2, "bytes"], keyIndex: [3, "number"], value: [4, "bytes"] }],
} as const satisfies Fields;

/** The limit for a packet and everything nested in it: 64 KB could contain tens of thousands of empty fields. */
const MAX_FIELDS = 2_000;

const decoder = new TextDecoder();

export const encodePacket = (packet: DataPacket): Uint8Array<ArrayBuffer> => write(PACKET, packet);

/** Returns null for bytes that are not a packet. Fields that are absent or of another type stay undefined. */
export const decodePacket = (data: Uint8Array): DataPacket | null => read(PACKET, data);

/** @internal */
export function write(fields: Fields, message: Readonly<Record<string, unknown>>): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  for (const [name, [field, kind]] of Object.entries(fields)) {
    const value = message[name];
    if (value !== undefined) parts.push(...writeValue(field, kind, value));
  }
  return concat(parts);
}

function writeValue(field: number, kind: Kind, value: unknown): Uint8Array[] {
  switch (kind) {
    case "text":
      return [writeText(field, value as string)];
    case "texts":
      return (value as string[]).map((text) => writeText(field, text));
    case "bytes":
      return [writeField(field, BYTES, value as Uint8Array)];
    case "number":
      return [writeNumber(field, value as number)];
    case "map":
      return Object.entries(value as Record<string, string>).map(([key, value]) =>
        writeField(field, BYTES, write(ENTRY, { key, value })),
      );
    default:
      return [writeField(field, BYTES, write(kind, value as Record<string, unknown>))];
  }
}

/** @internal */
export function read(
  fields: Fields,
  data: Uint8Array,
  budget = { fields: MAX_FIELDS },
): Record<string, unknown> | null {
  const message: Record<string, unknown> = {};
  const names = new Map(Object.entries(fields).map(([name, [field, kind]]) => [field, { name, kind }]));
  const isMessage = eachField(data, (field, wire, value) => {
    if (--budget.fields < 0) return false;
    const known = names.get(field);
    if (!known || wire !== (known.kind === "number" ? VARINT : BYTES)) return true;
    const { name, kind } = known;
    switch (kind) {
      case "text":
        message[name] = decoder.decode(value);
        return true;
      case "texts":
        message[name] ??= [];
        (message[name] as string[]).push(decoder.decode(value));
        return true;
      case "bytes":
        message[name] = value;
        return true;
      case "number":
        message[name] = numberOf(value);
        return true;
      case "map": {
        const { key = "", value: text = "" } = (read(ENTRY, value, budget) ?? {}) as { key?: string; value?: string };
        message[name] ??= {};
        (message[name] as Record<string, string>)[key] = text;
        return true;
      }
      default: {
        const inner = read(kind, value, budget);
        message[name] = inner;
        return inner !== null;
      }
    }
  });
  return isMessage ? message : null;
}
