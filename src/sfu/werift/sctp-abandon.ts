/**
 * How werift's SCTP association gives up messages of lossy channels (RFC 3758). Its own way never does for a channel that
 * retransmits nothing, as it takes 0 for "no limit"; where it does, it gives up whatever was sent first, reliable or not; and
 * the notice of it is sent once: when that is lost, the peer waits for ever for what will not come.
 */

import { isAfter } from "./sctp-inbound.ts";

const FIRST_FRAGMENT = 0x02;
const LAST_FRAGMENT = 0x01;

type DataChunk = {
  flags: number;
  streamId: number;
  streamSeqNum: number;
  tsn: number;
  /** How often it was sent. */
  sentCount: number;
  /** Undefined: until it arrives. */
  maxRetransmits?: number | undefined;
  acked: boolean;
  abandoned: boolean;
  retransmit: boolean;
};

type ForwardTsn = { cumulativeTsn: number; streams: [streamId: number, streamSeqNum: number][] };

/** The parts of an association that this touches. */
export type LossyAssociation = {
  sentQueue: DataChunk[];
  outboundQueue: DataChunk[];
  forwardTsnChunk: ForwardTsn | undefined;
  advancedPeerAckTsn: number;
  lastSackedTsn: number;
  remotePartialReliability: boolean;
  flightSizeDecrease(chunk: DataChunk): void;
  maybeAbandon(chunk: DataChunk): boolean;
  updateAdvancedPeerAckPoint(): void;
};

export function giveUpLossyMessages(association: LossyAssociation): void {
  association.maybeAbandon = (chunk) => {
    if (chunk.abandoned) return true;
    const { maxRetransmits } = chunk;
    if (maxRetransmits === undefined || maxRetransmits >= chunk.sentCount) return false;
    if (!association.remotePartialReliability) return false;
    abandonMessage(association, chunk);
    return true;
  };
  repeatNotice(association);
}

/** A message with one fragment missing is worth nothing: the others go with it, those that have not been sent included. */
function abandonMessage(association: LossyAssociation, chunk: DataChunk): void {
  const { sentQueue, outboundQueue } = association;
  let first = sentQueue.indexOf(chunk);
  while (first > 0 && ((sentQueue[first]?.flags ?? FIRST_FRAGMENT) & FIRST_FRAGMENT) === 0) first--;
  for (let at = Math.max(first, 0); ; at++) {
    if (at === sentQueue.length) {
      const unsent = outboundQueue.shift();
      if (!unsent) return;
      sentQueue.push(unsent);
    }
    const part = sentQueue[at] as DataChunk;
    const isUnderWay = part.sentCount > 0 && !part.acked && !part.retransmit && !part.abandoned;
    // The caller takes the chunk itself off what is under way.
    if (isUnderWay && part !== chunk) association.flightSizeDecrease(part);
    part.abandoned = true;
    part.retransmit = false;
    if (part.flags & LAST_FRAGMENT) return;
  }
}

/** Until the peer has moved on, with the last number of every stream that was skipped. */
function repeatNotice(association: LossyAssociation): void {
  const update = association.updateAdvancedPeerAckPoint.bind(association);
  const skipped = new Map<number, number>();
  let notice: ForwardTsn | undefined;
  association.updateAdvancedPeerAckPoint = () => {
    update();
    const fresh = association.forwardTsnChunk;
    for (const [stream, sequence] of fresh?.streams ?? []) skipped.set(stream, sequence);
    notice = fresh ?? notice;
    if (!notice) return;
    if (!isAfter(association.advancedPeerAckTsn, association.lastSackedTsn, 32)) {
      notice = undefined;
      skipped.clear();
      return;
    }
    notice.streams = [...skipped];
    association.forwardTsnChunk = notice;
  };
}
