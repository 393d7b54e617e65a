/** Decodes the messages of LiveKit's clients, whose number of fields is checked first: every field becomes an object. */
import {
  type BinaryReadOptions,
  type FieldInfo,
  type JsonReadOptions,
  type Message,
  type MessageType,
  ScalarType,
} from "@bufbuild/protobuf";
import { BYTES, eachFieldAt } from "../../protocol/media/protobuf.ts";

/** More fields than a request about every track of a full room has. */
const MAX_FIELDS = 4_096;
/** Decoding a field takes about as long as reading this many bytes of text. */
const BYTES_PER_FIELD = 64;

type Decoded<T> = { message: T; fields: number };

const JSON_OPTIONS: Partial<JsonReadOptions> = { ignoreUnknownFields: true };
/** Parts of a message are forwarded to others. They would contain unknown fields of any size, which no check sees. */
const BINARY_OPTIONS: Partial<BinaryReadOptions> = { readUnknownFields: false };

/** Null for bytes that are not such a message, and for a message with too many fields, which is not decoded. */
export function decodeBinary<T extends Message<T>>(type: MessageType<T>, bytes: Uint8Array): Decoded<T> | null {
  const fields = fieldsIn(type, bytes);
  if (fields === null || fields > MAX_FIELDS) return null;
  try {
    return { message: type.fromBinary(bytes, BINARY_OPTIONS), fields };
  } catch {
    return null;
  }
}

/** Decodes the JSON form in the same way. Unknown fields are ignored, because a newer client may send them. */
export function decodeJson<T extends Message<T>>(type: MessageType<T>, text: string): Decoded<T> | null {
  const fields = fieldsInJson(text);
  if (fields > MAX_FIELDS) return null;
  try {
    const message = type.fromJsonString(text, JSON_OPTIONS);
    // JSON takes any integer as an enum. Encoding a large one throws, which must not happen when others are notified of it.
    message.toBinary();
    return { message, fields };
  } catch {
    return null;
  }
}

/** The number of frames that a frame counts as in its sender's budget, determined before it is read. */
export const frameCost = (bytes: number) => Math.max(1, Math.ceil(bytes / (256 * BYTES_PER_FIELD)));
/** The additional cost of the fields, determined when they are counted and before they are decoded. */
export const fieldsCost = (fields: number) => Math.floor(fields / 256);

/**
 * The number of fields, including those of nested messages; null for malformed bytes. Counting stops above
 * `MAX_FIELDS`.
 */
function fieldsIn(type: MessageType, data: Uint8Array): number | null {
  let count = 0;
  let isOver = false;

  function walk(within: MessageType | null, from: number, to: number): boolean {
    return eachFieldAt(data, from, to, (no, wire, start, end) => {
      const field = within?.fields.find(no);
      count += 1 + (wire === BYTES && field && isPacked(field) ? end - start : 0);
      isOver = count > MAX_FIELDS;
      if (isOver || wire !== BYTES || !field) return !isOver;
      if (field.kind === "message") return walk(field.T, start, end);
      if (field.kind !== "map") return true;
      // An entry of a map has its key as field 1 and its value as field 2.
      const valueType = field.V.kind === "message" ? field.V.T : null;
      return eachFieldAt(data, start, end, (part, partWire, innerStart, innerEnd) => {
        count += 1;
        return part === 2 && partWire === BYTES && valueType ? walk(valueType, innerStart, innerEnd) : true;
      });
    });
  }

  const isReadable = walk(type, 0, data.length);
  return isReadable || isOver ? count : null;
}

function isPacked(field: FieldInfo): boolean {
  if (!field.repeated) return false;
  return (
    field.kind === "enum" || (field.kind === "scalar" && field.T !== ScalarType.STRING && field.T !== ScalarType.BYTES)
  );
}

/** The number of values in a JSON text, counted by the punctuation outside of its strings. */
function fieldsInJson(text: string): number {
  let count = 1;
  for (let at = 0; at < text.length && count <= MAX_FIELDS; at++) {
    const character = text.charCodeAt(at);
    if (character === 0x22) at = stringEnd(text, at);
    else if (character === 0x2c || character === 0x5b || character === 0x7b) count += 1;
  }
  return count;
}

function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (character === 0x5c) at += 1;
    else if (character === 0x22) return at;
  }
  return text.length;
}
