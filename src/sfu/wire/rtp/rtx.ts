// Retransmission streams (RFC 4588): the payload is the original sequence number followed by the original payload.

import { readUint16 } from "./bytes.ts";
import { type RtpView, setPayloadType, setSequenceNumber, setSsrc } from "./rtp.ts";

/**
 * Restores, in place, the packet that the RTX packet in `view` repeats. Returns false when it repeats none: browsers probe
 * the bandwidth with padding on the RTX stream.
 */
export function unwrapRtx(view: RtpView, ssrc: number, payloadType: number): boolean {
  if (view.payloadLength < 2) return false;
  const { data, length, marker, payloadOffset } = view;
  const original = readUint16(data, payloadOffset);
  // Moving the header over the two bytes spares moving the payload.
  data.copyWithin(2, 0, payloadOffset);
  const packet = data.subarray(2, length);
  setSsrc(packet, ssrc);
  setSequenceNumber(packet, original);
  setPayloadType(packet, payloadType, marker);
  return view.parse(packet, length - 2);
}

/** The RTX stream of one subscription, with its own SSRC and sequence numbers. */
export class RtxStream {
  readonly ssrc: number;
  #next: number;

  constructor(ssrc: number, firstSequence: number) {
    this.ssrc = ssrc;
    this.#next = firstSequence;
  }

  nextSequence(): number {
    const sequence = this.#next;
    this.#next = (sequence + 1) & 0xffff;
    return sequence;
  }
}
