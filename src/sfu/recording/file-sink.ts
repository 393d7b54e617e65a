// Writes a file asynchronously. The media thread only puts bytes into a queue; when the disk cannot keep up the queue is full and
// reports it, instead of growing or delaying packets.

import { type FileHandle, open } from "node:fs/promises";
import { copyRange, type Span, spanOf } from "../wire/frames/frame.ts";
import type { Patch } from "./media-file.ts";

/** Three seconds of a track at 20 Mbit/s. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;
/** All files of a thread share chunks of this size, because allocating memory costs more than filling it. */
const CHUNK_BYTES = 64 * 1024;
const KEPT_CHUNKS = 64;
/** Many frames share one write, because each takes a thread switch; waiting bytes are lost in a crash. */
const WRITE_BYTES = 4 * CHUNK_BYTES;
const WRITE_AFTER_MS = 1_000;

type Chunk = { bytes: Uint8Array; length: number };

const freeChunks: Chunk[] = [];

export class FileSink {
  readonly #path: string;
  readonly #onError: (error: Error) => void;
  readonly #writeAfterMs: number;
  /** Full chunks in order. */
  #queue: Chunk[] = [];
  #filling: Chunk | null = null;
  #queuedBytes = 0;
  #handle: FileHandle | null = null;
  #writing: Promise<void> | null = null;
  #timer: Timer | null = null;
  #failed = false;
  /** Bytes accepted so far, written or not. */
  bytes = 0;

  /** `writeAfterMs` is less for a file that gets complete fragments now and then. */
  constructor(path: string, onError: (error: Error) => void, writeAfterMs = WRITE_AFTER_MS) {
    this.#path = path;
    this.#onError = onError;
    this.#writeAfterMs = writeAfterMs;
  }

  /** Is true when no more can be accepted now, or ever: then whole frames have to be dropped. */
  get isFull(): boolean {
    return this.#failed || this.#queuedBytes > MAX_QUEUED_BYTES;
  }

  append(spans: readonly Span[]): void {
    if (this.#failed) return;
    let bytes = 0;
    for (const span of spans) {
      this.#fill(span);
      bytes += span.length;
    }
    if (bytes === 0) return;
    this.#queuedBytes += bytes;
    this.bytes += bytes;
    if (this.#queuedBytes >= WRITE_BYTES) void this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush(), this.#writeAfterMs);
  }

  #fill(span: Span): void {
    const last = span.at + span.length;
    for (let at = span.at; at < last; ) {
      this.#filling ??= freeChunks.pop() ?? { bytes: new Uint8Array(CHUNK_BYTES), length: 0 };
      const chunk = this.#filling;
      const end = Math.min(last, at + CHUNK_BYTES - chunk.length);
      copyRange(span.data, at, end, chunk.bytes, chunk.length);
      chunk.length += end - at;
      at = end;
      if (chunk.length === CHUNK_BYTES) this.#enqueue();
    }
  }

  #enqueue(): void {
    if (this.#filling) this.#queue.push(this.#filling);
    this.#filling = null;
  }

  /** Writes the queue, the tail and the patches, and closes the file. */
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
      // Bytes that arrived meanwhile may be the last ones.
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

/** A nearly full disk accepts a part of the bytes, and reports the error with the next write. */
async function writeRest(handle: FileHandle, waiting: readonly Uint8Array[], written: number): Promise<void> {
  const rest = Buffer.concat(waiting).subarray(written);
  for (let at = 0; at < rest.length; ) at += (await handle.write(rest, at, rest.length - at)).bytesWritten;
}
