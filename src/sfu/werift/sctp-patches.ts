/** Corrections of werift's SCTP association where it does not follow RFC 9260 and RFC 3758. */

const UNORDERED = 0x04;
const FIRST_FRAGMENT = 0x02;
const LAST_FRAGMENT = 0x01;

type InboundChunk = {
  flags: number;
  streamId: number;
  streamSeqNum: number;
  tsn: number;
  protocol: number;
  userData: Buffer;
};
type Message = [streamId: number, protocol: number, userData: Buffer];

type InboundStream = {
  /** Ordered by TSN, without duplicates. */
  reassembly: InboundChunk[];
  /** The number of the next ordered message. */
  streamSequenceNumber: number;
  popMessages(): Iterable<Message>;
};

export type InboundAssociation = {
  inboundStreams: Record<number, InboundStream>;
  lastReceivedTsn?: number;
  advertisedRwnd: number;
  sackNeeded: boolean;
  sackImmediate: boolean;
  sackDuplicates: number[];
  sackMisOrdered: Set<number>;
  getInboundStream(streamId: number): InboundStream;
  receive(...message: Message): void;
  receiveForwardTsnChunk(forward: ForwardTsn): void;
};

/**
 * werift stops after each message unless the next one of the stream was sent right after it, so messages of two channels that
 * alternate pile up; and a FORWARD-TSN makes it drop all waiting messages, reliable ones included.
 */
export function patchReassembly(association: InboundAssociation): void {
  const getInboundStream = association.getInboundStream.bind(association);
  association.getInboundStream = (streamId) => {
    const stream = getInboundStream(streamId);
    stream.popMessages = () => takeMessages(stream);
    return stream;
  };
  association.receiveForwardTsnChunk = (forward) => skip(association, forward);
}

function takeMessages(stream: InboundStream): Message[] {
  const messages: Message[] = [];
  let left: InboundChunk[] = [];
  let { reassembly } = stream;
  while (reassembly.length > 0) {
    const [first] = reassembly as [InboundChunk];
    const isOrdered = !(first.flags & UNORDERED);
    const count = lengthOfMessage(reassembly);
    const isDue = count > 0 && (!isOrdered || !isAfter(first.streamSeqNum, stream.streamSequenceNumber, 16));
    if (!isDue && isOrdered) break;
    const taken = reassembly.slice(0, Math.max(count, 1));
    reassembly = reassembly.slice(taken.length);
    if (!isDue) {
      left = [...left, ...taken];
      continue;
    }
    if (isOrdered && first.streamSeqNum === stream.streamSequenceNumber)
      stream.streamSequenceNumber = (first.streamSeqNum + 1) & 0xffff;
    messages.push([first.streamId, first.protocol, Buffer.concat(taken.map(({ userData }) => userData))]);
  }
  stream.reassembly = [...left, ...reassembly];
  return messages;
}

/** The number of chunks of the first message; 0 when some are missing. */
function lengthOfMessage(chunks: readonly InboundChunk[]): number {
  const [first] = chunks;
  if (!first || !(first.flags & FIRST_FRAGMENT)) return 0;
  for (const [i, chunk] of chunks.entries()) {
    if (chunk.tsn !== (first.tsn + i) >>> 0) return 0;
    if (chunk.flags & LAST_FRAGMENT) return i + 1;
  }
  return 0;
}

/** No more chunks up to `cumulativeTsn` will come: complete messages are delivered, and only fragments are dropped. */
function skip(association: InboundAssociation, { cumulativeTsn, streams }: ForwardTsn): void {
  association.sackNeeded = true;
  association.sackImmediate = true;
  const last = association.lastReceivedTsn;
  if (last === undefined || !isAfter(cumulativeTsn, last, 32)) return;
  let received = cumulativeTsn;
  while (association.sackMisOrdered.has((received + 1) >>> 0)) received = (received + 1) >>> 0;
  association.lastReceivedTsn = received;
  association.sackMisOrdered = new Set([...association.sackMisOrdered].filter((tsn) => isAfter(tsn, received, 32)));
  association.sackDuplicates = association.sackDuplicates.filter((tsn) => isAfter(tsn, received, 32));
  for (const [streamId, sequence] of streams) {
    const stream = association.getInboundStream(streamId);
    const next = (sequence + 1) & 0xffff;
    if (isAfter(next, stream.streamSequenceNumber, 16)) stream.streamSequenceNumber = next;
  }
  for (const stream of Object.values(association.inboundStreams)) {
    for (const message of takeMessages(stream)) {
      association.advertisedRwnd += message[2].length;
      association.receive(...message);
    }
    const isSkipped = ({ tsn }: InboundChunk) => !isAfter(tsn, cumulativeTsn, 32);
    for (const { userData } of stream.reassembly.filter(isSkipped)) association.advertisedRwnd += userData.length;
    stream.reassembly = stream.reassembly.filter((chunk) => !isSkipped(chunk));
  }
}

function isAfter(a: number, b: number, bits: 16 | 32): boolean {
  const ahead = bits === 16 ? (a - b) & 0xffff : (a - b) >>> 0;
  return ahead !== 0 && ahead < 2 ** (bits - 1);
}

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

/** A message without one fragment is useless, so all its fragments are abandoned, unsent ones included. */
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
