// AV1 over RTP: the N bit of the aggregation header marks the first packet of a new coded video sequence.

import { readUint8 } from "../rtp/bytes.ts";

export function startsAv1Keyframe(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 2) return false;
  const header = readUint8(data, offset);
  // Z: the packet continues an OBU of the packet before, so it cannot start a sequence.
  return (header & 0x08) !== 0 && (header & 0x80) === 0;
}
