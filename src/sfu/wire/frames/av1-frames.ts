// Temporal units of AV1 from RTP, as files hold them: OBUs with their sizes, without delimiters.

import { av1SequenceSize, readLeb128 } from "../codec/av1.ts";
import { readUint8 } from "../rtp/bytes.ts";
import { concat, type Depacketizer, type Span, spanOf, viewOf } from "./frame.ts";

const OBU = { sequenceHeader: 1, temporalDelimiter: 2, tileList: 8, padding: 15 } as const;
const HAS_SIZE = 0x02;
const HAS_EXTENSION = 0x04;

export class Av1Frames implements Depacketizer {
  /** The newest sequence header with its size; null before the first. */
  sequenceHeader: Uint8Array | null = null;

  assemble(payloads: Span[]): ReturnType<Depacketizer["assemble"]> {
    const obus = elementsOf(payloads.map(viewOf));
    if (!obus) return null;
    let keyframe = false;
    let size = { width: 0, height: 0 };
    const kept: Uint8Array[] = [];
    for (const obu of obus) {
      const type = (readUint8(obu, 0) >> 3) & 0x0f;
      if (type === OBU.temporalDelimiter || type === OBU.tileList || type === OBU.padding) continue;
      const sized = withSize(obu);
      if (type === OBU.sequenceHeader) {
        keyframe = true;
        this.sequenceHeader = sized;
        size = av1SequenceSize(obu, 0, obu.length);
      }
      kept.push(sized);
    }
    return kept.length > 0 ? { spans: kept.map(spanOf), keyframe, ...size } : null;
  }

  /** The codec configuration record of files: profile and level by the sequence header, and the header itself. */
  configuration(): Uint8Array | null {
    const header = this.sequenceHeader;
    if (!header) return null;
    const payloadAt = header.length - (readLeb128(header, 1)?.value ?? 0);
    const profile = readUint8(header, payloadAt) >> 5;
    return concat([Uint8Array.of(0x81, (profile << 5) | 8, 0x0c, 0), header]);
  }
}

/** The OBUs of the packets, with fragments joined; null when fragments do not fit. */
function elementsOf(payloads: readonly Uint8Array[]): Uint8Array[] | null {
  const obus: Uint8Array[] = [];
  let open: Uint8Array[] | null = null;
  for (const payload of payloads) {
    if (payload.length < 2) return null;
    const header = readUint8(payload, 0);
    const continues = (header & 0x80) !== 0;
    const goesOn = (header & 0x40) !== 0;
    const count = (header >> 4) & 3;
    if (continues !== (open !== null)) return null;
    let at = 1;
    for (let element = 1; at < payload.length; element++) {
      let size = payload.length - at;
      if (count !== element) {
        const leb = readLeb128(payload, at);
        if (!leb || leb.next + leb.value > payload.length) return null;
        at = leb.next;
        size = leb.value;
      }
      const bytes = payload.subarray(at, at + size);
      at += size;
      const fragments: Uint8Array[] = open ?? [];
      fragments.push(bytes);
      open = at >= payload.length && goesOn ? fragments : null;
      if (!open && size > 0) obus.push(concat(fragments));
    }
  }
  return open ? null : obus;
}

function withSize(obu: Uint8Array): Uint8Array {
  const header = readUint8(obu, 0);
  if (header & HAS_SIZE) return obu;
  const headerLength = header & HAS_EXTENSION ? 2 : 1;
  const head = obu.slice(0, headerLength);
  head[0] = header | HAS_SIZE;
  return concat([head, leb128(obu.length - headerLength), obu.subarray(headerLength)]);
}

function leb128(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  do {
    const low = rest % 128;
    rest = Math.floor(rest / 128);
    bytes.push(rest > 0 ? low | 0x80 : low);
  } while (rest > 0);
  return Uint8Array.from(bytes);
}
