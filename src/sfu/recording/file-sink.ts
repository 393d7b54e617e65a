// Bytes on their way to a file. The packets' thread only puts them into a queue: the disk is written beside it, and when the
// disk cannot keep up the queue is full and says so, instead of growing or holding up a packet.

import { type FileHandle, open } from "node:fs/promises";
import { copy, type Span, spanOf } from "../wire/frames/frame.ts";
import type { Patch } from "./media-file.ts";

/** Three seconds of a track of 20 Mbit/s. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;
/** Memory comes in pieces of this size, which all files of a thread share: fresh memory is dearer than what is put into it. */
const CHUNK_BYTES = 64 * 1024;
const KEPT_CHUNKS = 64;
/** One write for many frames, for each costs a hop to another thread and back; what waits is what a crash may cost. */
const WRITE_BYTES = 4 * CHUNK_BYTES;
const WRITE_AFTER_MS = 1_000;

type Chunk = { bytes: Uint8Array; length: number };

const freeChunks: Chunk[] = [];

export class FileSink {
  readonly #path: string;
  readonly #onError: (error: Error) => void;
  readonly #writeAfterMs: number;
  /** Full, in their order. */
  #queue: Chunk[] = [];
  #filling: Chunk | null = null;
  #queuedBytes = 0;
  #handle: FileHandle | null = null;
  #writing: Promise<void> | null = null;
  #timer: Timer | null = null;
  #failed = false;
  /** Accepted so far, written or not. */
  bytes = 0;

  /** `writeAfterMs`: less for one that is given whole pieces of a file now and then. */
  constructor(path: string, onError: (error: Error) => void, writeAfterMs = WRITE_AFTER_MS) {
    this.#path = path;
    this.#onError = onError;
    this.#writeAfterMs = writeAfterMs;
  }

  /** Nothing more can be taken at the moment, or ever: leave out whole frames. */
  get isFull(): boolean {
    return this.#failed || this.#queuedBytes > MAX_QUEUED_BYTES;
  }

  /** In pieces, as they lie behind each other in the file. */
  append(pieces: readonly Span[]): void {
    if (this.#failed) return;
    let bytes = 0;
    for (const piece of pieces) {
      this.#fill(piece);
      bytes += piece.length;
    }
    if (bytes === 0) return;
    this.#queuedBytes += bytes;
    this.bytes += bytes;
    if (this.#queuedBytes >= WRITE_BYTES) void this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush(), this.#writeAfterMs);
  }

  #fill(piece: Span): void {
    const last = piece.at + piece.length;
    for (let at = piece.at; at < last; ) {
      this.#filling ??= freeChunks.pop() ?? { bytes: new Uint8Array(CHUNK_BYTES), length: 0 };
      const chunk = this.#filling;
      const end = Math.min(last, at + CHUNK_BYTES - chunk.length);
      copy(piece.data, at, end, chunk.bytes, chunk.length);
      chunk.length += end - at;
      at = end;
      if (chunk.length === CHUNK_BYTES) this.#enqueue();
    }
  }

  #enqueue(): void {
    if (this.#filling) this.#queue.push(this.#filling);
    this.#filling = null;
  }

  /** Writes what waits, the end, and what was left open in the middle. */
  async finish(tail: Uint8Array, patches: readonly Patch[]): Promise<void> {
    this.append([spanOf(tail)]);
    while (this.#queuedBytes > 0 && !this.#failed) await this.#flush();
    await this.#writing;
    const handle = this.#handle;
    this.#handle = null;
    if (!handle) return;
    try {
      if (!this.#failed)
        for (const { position, bytes } of patches) await handle.write(bytes, 0, bytes.length, position);
      await handle.datasync();
    } catch (error) {
      this.#fail(error as Error);
    } finally {
      await handle.close().catch(() => {});
    }
  }

  #flush(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    this.#writing ??= this.#writeQueue().finally(() => {
      this.#writing = null;
      // It has come meanwhile, and perhaps nothing more comes.
      if (this.#queuedBytes > 0) this.#timer ??= setTimeout(() => void this.#flush(), this.#writeAfterMs);
    });
    return this.#writing;
  }

  async #writeQueue(): Promise<void> {
    try {
      const handle = this.#handle ?? (await open(this.#path, "wx", 0o600));
      this.#handle = handle;
      this.#enqueue();
      const chunks = this.#queue;
      this.#queue = [];
      const waiting = chunks.map(({ bytes, length }) => bytes.subarray(0, length));
      const total = waiting.reduce((sum, { length }) => sum + length, 0);
      const { bytesWritten } = await handle.writev(waiting);
      if (bytesWritten < total) await writeRest(handle, waiting, bytesWritten);
      this.#queuedBytes -= total;
      for (const { bytes } of chunks) if (freeChunks.length < KEPT_CHUNKS) freeChunks.push({ bytes, length: 0 });
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #fail(error: Error): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#queue = [];
    this.#filling = null;
    this.#queuedBytes = 0;
    this.#onError(error);
  }
}

/** A disk that is nearly full takes a part of what it is given, and says why with the next. */
async function writeRest(handle: FileHandle, waiting: readonly Uint8Array[], written: number): Promise<void> {
  const rest = Buffer.concat(waiting).subarray(written);
  for (let at = 0; at < rest.length; ) at += (await handle.write(rest, at, rest.length - at)).bytesWritten;
}
