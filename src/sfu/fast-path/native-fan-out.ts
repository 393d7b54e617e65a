// The native counterpart of `forwarding/fan-out.ts`: TypeScript writes each viewer's header, C adds the payload and protects all
// copies in one call. Byte for byte the same packets.

import {
  type FanOut,
  MAX_PACKET_BYTES,
  writeHeader,
  writeOriginalSequenceNumber,
  writePrefix,
} from "../forwarding/fan-out.ts";
import type { FanOutTarget } from "../forwarding/fan-out-target.ts";
import { SEND_BATCH_PACKETS, type SendBatch } from "../forwarding/send-batch.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import type { NativeEngine } from "./library.ts";

/** Fields of `copy` in srtp.c, 32 bits each. */
const COPY = {
  cipher: 0,
  slot: 1,
  headerLength: 2,
  payloadAt: 3,
  prefix: 4,
  padding: 5,
  rollover: 6,
  length: 7,
} as const;
const COPY_WORDS = 8;

export function createNativeFanOut(native: NativeEngine): FanOut {
  const copies = new Uint32Array(SEND_BATCH_PACKETS * COPY_WORDS);
  const chosen: FanOutTarget[] = [];

  /** Describes copy number `count`, in the slot so far ahead of the next free one. False: it cannot be sent. */
  const describe = (packet: RtpView, target: FanOutTarget, batch: SendBatch, count: number): boolean => {
    const { srtp } = target.transport;
    const { handle } = srtp.cipher;
    if (handle === 0) return false;
    const out = batch.slot(count);
    const headerLength = writeHeader(out, packet, target);
    if (headerLength < 0) return false;
    const payloadAt = writeOriginalSequenceNumber(out, headerLength, target);
    writePrefix(out, payloadAt, target);
    const at = count * COPY_WORDS;
    copies[at + COPY.cipher] = handle;
    copies[at + COPY.slot] = batch.count + count;
    copies[at + COPY.headerLength] = headerLength;
    copies[at + COPY.payloadAt] = payloadAt;
    copies[at + COPY.prefix] = target.prefixLength;
    copies[at + COPY.padding] = target.paddingLength;
    copies[at + COPY.rollover] = srtp.rollover(target.ssrc, target.sequenceNumber);
    copies[at + COPY.length] = 0;
    chosen[count] = target;
    return true;
  };

  const protect = (payload: Uint8Array, batch: SendBatch, count: number): void => {
    const { arena } = batch;
    native.functions.stoa_fan_out(native.engine, arena, arena.length, payload, payload.length, copies, count);
    // The last commit may send the batch and begin anew: lengths are read before, and slots not touched after.
    for (let i = 0; i < count; i++) {
      const length = copies[i * COPY_WORDS + COPY.length] as number;
      const { transport } = chosen[i] as FanOutTarget;
      if (transport.deliver === undefined) batch.commit(length, transport.port, transport.address);
      else if (length > 0) transport.deliver(batch.slot().subarray(0, length));
    }
  };

  return (packet, targets, count, batch) => {
    const { payloadOffset, payloadLength, data } = packet;
    if (packet.length > MAX_PACKET_BYTES) return;
    const payload = data.subarray(payloadOffset, payloadOffset + payloadLength);
    let described = 0;
    for (let i = 0; i < count; i++) {
      const target = targets[i] as FanOutTarget;
      const delivers = target.transport.deliver !== undefined;
      // Who takes its packet itself borrows the next slot, so nothing may be waiting for that one.
      if (described > 0 && (delivers || batch.count + described === batch.capacity)) {
        protect(payload, batch, described);
        described = 0;
      }
      if (!describe(packet, target, batch, described)) continue;
      described += 1;
      if (delivers) {
        protect(payload, batch, described);
        described = 0;
      }
    }
    if (described > 0) protect(payload, batch, described);
  };
}
