/**
 * The receiving half of an SCTP association (RFC 9260 §6, RFC 3758): which chunks have arrived, messages joined from their
 * fragments, and the order of messages in a stream. werift searches everything it holds for every chunk and keeps it without a
 * limit, so a participant could stop the thread. Here a chunk takes constant time, and what waits is limited.
 */

const UNORDERED = 0x04;
const FIRST_FRAGMENT = 0x02;
const LAST_FRAGMENT = 0x01;

/** Bytes of incomplete and early messages; several of the largest messages. */
export const RECEIVE_WINDOW_BYTES = 256 * 1_024;
/** A peer within MAX_AHEAD can have that many chunks waiting behind a lost one, and a message in progress before it. */
const MAX_WAITING_CHUNKS = 2_048;
/** How far a chunk may be ahead of the last one in order. */
const MAX_AHEAD = 1_024;
const MAX_STREAMS = 1_024;
/** As many gaps as libwebrtc reports. */
const MAX_REPORTED_GAPS = 20;
const MAX_REPORTED_DUPLICATES = 20;

type InboundChunk = {
  readonly flags: number;
  readonly tsn: number;
  readonly streamId: number;
  readonly streamSequence: number;
  readonly protocol: number;
  readonly userData: Buffer;
};
export type Deliver = (streamId: number, protocol: number, userData: Buffer) => void;

type Fragment = { readonly chunk: InboundChunk; next: Fragment | null };
/** Fragments of one message with consecutive TSNs. */
type Run = { first: Fragment; last: Fragment; chunks: number; bytes: number };
type Message = { readonly chunk: InboundChunk; readonly data: Buffer; readonly chunks: number };
type Stream = { nextSequence: number; readonly early: Map<number, Message> };

export class SctpInbound {
  readonly #deliver: Deliver;
  #lastTsn: number;
  /** TSNs after a gap. */
  readonly #ahead = new Set<number>();
  readonly #runsByFirst = new Map<number, Run>();
  readonly #runsByLast = new Map<number, Run>();
  readonly #streams = new Map<number, Stream>();
  #duplicates: number[] = [];
  #waitingChunks = 0;
  #waitingBytes = 0;

  constructor(initialTsn: number, deliver: Deliver) {
    this.#lastTsn = (initialTsn - 1) >>> 0;
    this.#deliver = deliver;
  }

  get waiting(): { chunks: number; bytes: number; streams: number } {
    return { chunks: this.#waitingChunks, bytes: this.#waitingBytes, streams: this.#streams.size };
  }

  get lastTsn(): number {
    return this.#lastTsn;
  }

  /** A chunk that does not fit is dropped like a lost packet. */
  add(chunk: InboundChunk): void {
    const { tsn, flags } = chunk;
    const ahead = (tsn - this.#lastTsn) >>> 0;
    if (ahead === 0 || ahead >= 2 ** 31 || this.#ahead.has(tsn)) {
      if (this.#duplicates.length < MAX_REPORTED_DUPLICATES) this.#duplicates.push(tsn);
      return;
    }
    if (ahead > MAX_AHEAD || chunk.streamId >= MAX_STREAMS || this.#isFull) return;
    this.#ahead.add(tsn);
    this.#advance();
    if (flags & FIRST_FRAGMENT && flags & LAST_FRAGMENT) this.#complete({ chunk, data: chunk.userData, chunks: 1 });
    else this.#addFragment(chunk);
  }

  /** No more chunks up to `tsn` will come: complete messages are delivered, and fragments are dropped. */
  skip(tsn: number, streams: readonly (readonly [streamId: number, streamSequence: number])[]): void {
    // Every chunk has at least one byte of data, so a peer that respects the window cannot have more chunks under way.
    const advance = (tsn - this.#lastTsn) >>> 0;
    if (advance === 0 || advance > RECEIVE_WINDOW_BYTES) return;
    for (const received of this.#ahead) if (!isAfter(received, tsn, 32)) this.#ahead.delete(received);
    this.#lastTsn = tsn;
    this.#advance();
    for (const run of this.#runsByFirst.values()) if (!isAfter(run.first.chunk.tsn, tsn, 32)) this.#drop(run);
    for (const [streamId, streamSequence] of streams) {
      if (streamId < MAX_STREAMS) this.#skipTo(this.#stream(streamId), (streamSequence + 1) & 0xffff);
    }
  }

  /** The peer resets the streams, whose sequence numbers start over. */
  reset(streamIds: Iterable<number>): void {
    for (const streamId of streamIds) {
      for (const message of this.#streams.get(streamId)?.early.values() ?? []) this.#release(message);
      this.#streams.delete(streamId);
    }
  }

  /** The SACK chunk for everything that has arrived. */
  acknowledge(): Buffer {
    const gaps = this.#gaps();
    const duplicates = this.#duplicates;
    this.#duplicates = [];
    const chunk = Buffer.alloc(16 + 4 * (gaps.length + duplicates.length));
    chunk[0] = 3;
    chunk.writeUInt16BE(chunk.length, 2);
    chunk.writeUInt32BE(this.#lastTsn, 4);
    chunk.writeUInt32BE(this.#isFull ? 0 : RECEIVE_WINDOW_BYTES - this.#waitingBytes, 8);
    chunk.writeUInt16BE(gaps.length, 12);
    chunk.writeUInt16BE(duplicates.length, 14);
    let at = 16;
    for (const [start, end] of gaps) {
      chunk.writeUInt16BE(start, at);
      chunk.writeUInt16BE(end, at + 2);
      at += 4;
    }
    for (const tsn of duplicates) at = chunk.writeUInt32BE(tsn, at);
    return chunk;
  }

  get #isFull(): boolean {
    return this.#waitingChunks >= MAX_WAITING_CHUNKS || this.#waitingBytes >= RECEIVE_WINDOW_BYTES;
  }

  #advance(): void {
    for (let next = (this.#lastTsn + 1) >>> 0; this.#ahead.delete(next); next = (next + 1) >>> 0) this.#lastTsn = next;
  }

  /** Relative to the last TSN in order. */
  #gaps(): [start: number, end: number][] {
    const gaps: [number, number][] = [];
    let left = this.#ahead.size;
    for (let offset = 2; left > 0; offset++) {
      if (!this.#ahead.has((this.#lastTsn + offset) >>> 0)) continue;
      left--;
      const gap = gaps.at(-1);
      if (gap?.[1] === offset - 1) gap[1] = offset;
      else if (gaps.push([offset, offset]) > MAX_REPORTED_GAPS) return gaps.slice(0, MAX_REPORTED_GAPS);
    }
    return gaps;
  }

  #addFragment(chunk: InboundChunk): void {
    const fragment: Fragment = { chunk, next: null };
    const bytes = chunk.userData.length;
    this.#waitingChunks++;
    this.#waitingBytes += bytes;
    let run: Run = { first: fragment, last: fragment, chunks: 1, bytes };
    const before = this.#runsByLast.get((chunk.tsn - 1) >>> 0);
    if (before && continues(before.last.chunk, chunk)) {
      this.#forget(before);
      run = join(before, run);
    }
    const after = this.#runsByFirst.get((chunk.tsn + 1) >>> 0);
    if (after && continues(chunk, after.first.chunk)) {
      this.#forget(after);
      run = join(run, after);
    }
    if (run.first.chunk.flags & FIRST_FRAGMENT && run.last.chunk.flags & LAST_FRAGMENT) {
      this.#waitingChunks -= run.chunks;
      this.#waitingBytes -= run.bytes;
      this.#complete({ chunk: run.first.chunk, data: dataOf(run), chunks: run.chunks });
      return;
    }
    this.#runsByFirst.set(run.first.chunk.tsn, run);
    this.#runsByLast.set(run.last.chunk.tsn, run);
  }

  #complete(message: Message): void {
    const { chunk } = message;
    if (chunk.flags & UNORDERED) {
      this.#deliver(chunk.streamId, chunk.protocol, message.data);
      return;
    }
    const stream = this.#stream(chunk.streamId);
    if (isAfter(chunk.streamSequence, stream.nextSequence, 16)) this.#keep(stream, message);
    else this.#deliverOrdered(stream, message);
  }

  #keep(stream: Stream, message: Message): void {
    const { streamSequence } = message.chunk;
    const same = stream.early.get(streamSequence);
    if (same) this.#release(same);
    this.#waitingChunks += message.chunks;
    this.#waitingBytes += message.data.length;
    stream.early.set(streamSequence, message);
  }

  #deliverOrdered(stream: Stream, message: Message): void {
    for (let due: Message | undefined = message; due; ) {
      const { streamId, streamSequence, protocol } = due.chunk;
      if (streamSequence === stream.nextSequence) stream.nextSequence = (streamSequence + 1) & 0xffff;
      this.#deliver(streamId, protocol, due.data);
      due = this.#takeEarly(stream, stream.nextSequence);
    }
  }

  #skipTo(stream: Stream, sequence: number): void {
    if (!isAfter(sequence, stream.nextSequence, 16)) return;
    const from = stream.nextSequence;
    const skipped = [...stream.early.keys()].filter((early) => isAfter(sequence, early, 16));
    stream.nextSequence = sequence;
    for (const early of skipped.sort((a, b) => ((a - from) & 0xffff) - ((b - from) & 0xffff))) {
      const message = this.#takeEarly(stream, early);
      if (message) this.#deliver(message.chunk.streamId, message.chunk.protocol, message.data);
    }
    const next = this.#takeEarly(stream, sequence);
    if (next) this.#deliverOrdered(stream, next);
  }

  #takeEarly(stream: Stream, sequence: number): Message | undefined {
    const message = stream.early.get(sequence);
    if (!message) return undefined;
    stream.early.delete(sequence);
    this.#release(message);
    return message;
  }

  #release({ chunks, data }: Message): void {
    this.#waitingChunks -= chunks;
    this.#waitingBytes -= data.length;
  }

  #drop(run: Run): void {
    this.#forget(run);
    this.#waitingChunks -= run.chunks;
    this.#waitingBytes -= run.bytes;
  }

  #forget(run: Run): void {
    this.#runsByFirst.delete(run.first.chunk.tsn);
    this.#runsByLast.delete(run.last.chunk.tsn);
  }

  #stream(streamId: number): Stream {
    const known = this.#streams.get(streamId);
    if (known) return known;
    const stream: Stream = { nextSequence: 0, early: new Map() };
    this.#streams.set(streamId, stream);
    return stream;
  }
}

function continues(earlier: InboundChunk, later: InboundChunk): boolean {
  if (earlier.flags & LAST_FRAGMENT || later.flags & FIRST_FRAGMENT) return false;
  const isSameMessage =
    (earlier.flags & UNORDERED) !== 0
      ? (later.flags & UNORDERED) !== 0
      : earlier.streamSequence === later.streamSequence;
  return (
    isSameMessage && earlier.streamId === later.streamId && (earlier.flags & UNORDERED) === (later.flags & UNORDERED)
  );
}

function join(earlier: Run, later: Run): Run {
  earlier.last.next = later.first;
  return {
    first: earlier.first,
    last: later.last,
    chunks: earlier.chunks + later.chunks,
    bytes: earlier.bytes + later.bytes,
  };
}

function dataOf(run: Run): Buffer {
  const parts: Buffer[] = [];
  for (let fragment: Fragment | null = run.first; fragment; fragment = fragment.next)
    parts.push(fragment.chunk.userData);
  return Buffer.concat(parts);
}

export function isAfter(a: number, b: number, bits: 16 | 32): boolean {
  const ahead = bits === 16 ? (a - b) & 0xffff : (a - b) >>> 0;
  return ahead !== 0 && ahead < 2 ** (bits - 1);
}
