/**
 * The layout of an encrypted frame, which is that of LiveKit's clients:
 *
 *     clear bytes ‖ AES-GCM ciphertext with its tag ‖ IV (12) ‖ length of the IV (1) ‖ key index (1)
 *
 * The clear bytes are those that packetizers and the server need: keyframe flags, sizes, and the units of H.264 and AV1.
 * They are authenticated as additional data.
 */

import { concat } from "../media/protobuf.ts";

export const IV_BYTES = 12;
const TRAILER_BYTES = IV_BYTES + 2;
const TAG_BYTES = 16;

/** The codecs whose frames have a defined layout. */
export type FrameCodec = "opus" | "VP8" | "VP9" | "H264" | "AV1";

/** The parts of a frame before encryption. `frame` may lack parts of the encoder's frame that are not sent. */
type PlainFrame = { frame: Uint8Array; clearBytes: number };
/** An encrypted frame in its parts; `body` is the ciphertext with its tag. */
type EncryptedFrame = { clear: Uint8Array; body: Uint8Array; iv: Uint8Array; keyIndex: number };

/** The codec of a browser's frame by its `mimeType`, such as `video/VP8`; null if the codec has no layout. */
export function frameCodecOf(mimeType: string | undefined): FrameCodec | null {
  const name = mimeType?.split("/")[1]?.toLowerCase();
  if (name === "opus") return "opus";
  return (["VP8", "VP9", "H264", "AV1"] as const).find((codec) => codec.toLowerCase() === name) ?? null;
}

/** Splits an encoder's frame into clear and secret bytes; null for a frame of H.264 or AV1 that contains no image data. */
export function splitPlainFrame(codec: FrameCodec, frame: Uint8Array, isKeyframe: boolean): PlainFrame | null {
  const plain = codec === "AV1" ? withoutTemporalDelimiter(frame) : frame;
  if (!plain) return null;
  const clearBytes = countClearBytes(codec, plain, isKeyframe);
  return clearBytes === null || clearBytes > plain.length ? null : { frame: plain, clearBytes };
}

/** Joins the parts of an encrypted frame so that the codec's packetizer accepts it. */
export function joinEncryptedFrame(
  codec: FrameCodec,
  { clear, body, iv, keyIndex }: EncryptedFrame,
): Uint8Array<ArrayBuffer> {
  const secret = concat([body, iv, Uint8Array.of(IV_BYTES, keyIndex)]);
  if (codec === "H264") return concat([clear, escapeStartCodes(secret)]);
  // A packetizer of AV1 reads the headers of all units, so the secret part is one unit of its own.
  if (codec === "AV1") return concat([clear, Uint8Array.of(AV1_SECRET_HEADER), leb128(secret.length), secret]);
  return concat([clear, secret]);
}

/** Splits a received frame into its parts; null for a frame that is not encrypted or was cut. */
export function splitEncryptedFrame(codec: FrameCodec, frame: Uint8Array, isKeyframe: boolean): EncryptedFrame | null {
  const clearBytes = countClearBytes(codec, frame, isKeyframe);
  if (clearBytes === null || clearBytes > frame.length) return null;
  const secret = secretBytes(codec, frame.subarray(clearBytes));
  if (secret === null || secret.length < TAG_BYTES + TRAILER_BYTES || secret.at(-2) !== IV_BYTES) return null;
  const body = secret.subarray(0, secret.length - TRAILER_BYTES);
  const iv = secret.subarray(body.length, body.length + IV_BYTES);
  return { clear: frame.subarray(0, clearBytes), body, iv, keyIndex: secret.at(-1) ?? 0 };
}

function countClearBytes(codec: FrameCodec, frame: Uint8Array, isKeyframe: boolean): number | null {
  switch (codec) {
    case "opus":
      return 1;
    case "VP8":
      return isKeyframe ? 10 : 3;
    case "VP9":
      return 0;
    case "H264":
      return h264ClearBytes(frame);
    case "AV1":
      return av1Units(frame)?.find(({ isFrame }) => isFrame)?.at ?? null;
  }
}

function secretBytes(codec: FrameCodec, secret: Uint8Array): Uint8Array | null {
  if (codec === "H264") return unescapeStartCodes(secret);
  if (codec !== "AV1") return secret;
  const [unit] = av1Units(secret) ?? [];
  return unit ? secret.subarray(unit.payloadAt, unit.end) : null;
}

// ---------------------------------------------------------------- H.264

const SLICE_UNITS = [1, 5];

/** The clear part ends one byte after the header of the first slice, so that parameter sets stay readable. */
function h264ClearBytes(frame: Uint8Array): number | null {
  for (let at = 0; at + 3 < frame.length; at++) {
    if (frame[at] !== 0 || frame[at + 1] !== 0 || frame[at + 2] !== 1) continue;
    if (SLICE_UNITS.includes((frame[at + 3] ?? 0) & 31)) return at + 5;
  }
  return null;
}

/** Inserts a 3 after two zeros wherever the next byte is at most 3, because packetizers search for start codes. */
export function escapeStartCodes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const escaped = new Uint8Array(Math.ceil(bytes.length * 1.5) + 1);
  let length = 0;
  let zeros = 0;
  for (const byte of bytes) {
    if (zeros >= 2 && byte <= 3) {
      escaped[length++] = 3;
      zeros = 0;
    }
    escaped[length++] = byte;
    zeros = byte === 0 ? zeros + 1 : 0;
  }
  return escaped.slice(0, length);
}

export function unescapeStartCodes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const plain = new Uint8Array(bytes.length);
  let length = 0;
  let zeros = 0;
  for (const [at, byte] of bytes.entries()) {
    if (zeros >= 2 && byte === 3 && (bytes[at + 1] ?? 0) <= 3) {
      zeros = 0;
      continue;
    }
    plain[length++] = byte;
    zeros = byte === 0 ? zeros + 1 : 0;
  }
  return plain.slice(0, length);
}

// ---------------------------------------------------------------- AV1

const TEMPORAL_DELIMITER = 2;
const FRAME_UNITS = [3, 4, 6, 7];
/** The header byte of an OBU of type frame that has a size. */
const AV1_SECRET_HEADER = 0x32;

type Av1Unit = { type: number; at: number; payloadAt: number; end: number; isFrame: boolean };

/** The units of a frame; null if their sizes do not fit it. The last unit may have no size. */
function av1Units(frame: Uint8Array): Av1Unit[] | null {
  const units: Av1Unit[] = [];
  for (let at = 0; at < frame.length; ) {
    const header = frame[at] ?? 0;
    const type = (header >> 3) & 15;
    let payloadAt = at + (header & 4 ? 2 : 1);
    let end = frame.length;
    if (header & 2) {
      let size = 0;
      for (let shift = 0; ; shift += 7) {
        const byte = frame[payloadAt++];
        if (byte === undefined || shift > 28) return null;
        size += (byte & 127) * 2 ** shift;
        if (byte < 128) break;
      }
      end = payloadAt + size;
    }
    if (payloadAt > end || end > frame.length) return null;
    units.push({ type, at, payloadAt, end, isFrame: FRAME_UNITS.includes(type) });
    at = end;
  }
  return units;
}

/** Packetizers drop the temporal delimiter, after which the authenticated clear bytes would differ. */
function withoutTemporalDelimiter(frame: Uint8Array): Uint8Array | null {
  const units = av1Units(frame)?.filter(({ type }) => type !== TEMPORAL_DELIMITER);
  return units ? concat(units.map(({ at, end }) => frame.subarray(at, end))) : null;
}

function leb128(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Uint8Array.from([...bytes, rest]);
}
