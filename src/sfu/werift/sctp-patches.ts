/** Corrections of how werift's SCTP association gives up messages, where it does not follow RFC 3758. */
import { isAfter } from "./sctp-inbound.ts";

const FIRST_FRAGMENT = 0x02;
const LAST_FRAGMENT = 0x01;

type DataChunk = {
  flags: number;
  streamId: number;
  streamSeqNum: number;
  tsn: number;
  /** How often the chunk was sent. */
  sentCount: number;
  /** Undefined for reliable messages. */
  maxRetransmits?: number | undefined;
  acked: boolean;
  abandoned: boolean;
  retransmit: boolean;
};

type ForwardTsn = { cumulativeTsn: number; streams: [streamId: number, streamSeqNum: number][] };

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

/**
 * werift never abandons messages of a channel without retransmissions, because it takes 0 for "no limit"; otherwise it abandons
 * the oldest message, reliable or not; and it sends FORWARD-TSN once, so that the peer waits forever when that is lost.
 */
export function patchAbandonment(association: LossyAssociation): void {
  association.maybeAbandon = (chunk) => {
    if (chunk.abandoned) return true;
    const { maxRetransmits } = chunk;
    if (maxRetransmits === undefined || maxRetransmits >= chunk.sentCount) return false;
    if (!association.remotePartialReliability) return false;
    abandonMessage(association, chunk);
    return true;
  };
  repeatForwardTsn(association);
}

/** A message without one fragment is useless, so all its fragments are abandoned, including those not yet sent. */
function abandonMessage(association: LossyAssociation, chunk: DataChunk): void {
  const { sentQueue, outboundQueue } = association;
  // Chunks that were sent have consecutive TSNs, so their positions can be computed. Searching for each would take quadratic time.
  let first = (chunk.tsn - (sentQueue[0]?.tsn ?? chunk.tsn)) >>> 0;
  while (first > 0 && ((sentQueue[first]?.flags ?? FIRST_FRAGMENT) & FIRST_FRAGMENT) === 0) first--;
  for (let at = Math.max(first, 0); ; at++) {
    if (at === sentQueue.length) {
      const unsent = outboundQueue.shift();
      if (!unsent) return;
      sentQueue.push(unsent);
    }
    const part = sentQueue[at] as DataChunk;
    const isUnderWay = part.sentCount > 0 && !part.acked && !part.retransmit && !part.abandoned;
    // The caller reduces the flight size by the chunk itself.
    if (isUnderWay && part !== chunk) association.flightSizeDecrease(part);
    part.abandoned = true;
    part.retransmit = false;
    if (part.flags & LAST_FRAGMENT) return;
  }
}

/** Repeats FORWARD-TSN until the peer has advanced, with the last number of every skipped stream. */
function repeatForwardTsn(association: LossyAssociation): void {
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
