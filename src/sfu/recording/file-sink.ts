// Bytes on their way to a file. The packets' thread only puts them into a queue: the disk is written beside it, and when the
// disk cannot keep up the queue is full and says so, instead of growing or holding up a packet.

import { type FileHandle, open } from "node:fs/promises";
import type { Patch } from "./media-file.ts";

/** Three seconds of a track of 20 Mbit/s. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;
/** One write for many frames; what waits is what a crash may cost. */
const CHUNK_BYTES = 64 * 1024;
const WRITE_AFTER_MS = 500;
/** One that is filled and one that is written: fresh memory is dearer than what is put into it. */
const KEPT_CHUNKS = 2;

type Chunk = { bytes: Uint8Array; length: number };

export class FileSink {
  readonly #path: string;
  readonly #onError: (error: Error) => void;
  /** Full, in their order. */
  #queue: Chunk[] = [];
  #filling: Chunk | null = null;
  readonly #free: Chunk[] = [];
  #queuedBytes = 0;
  #handle: FileHandle | null = null;
  #writing: Promise<void> | null = null;
  #timer: Timer | null = null;
  #failed = false;
  /** Accepted so far, written or not. */
  bytes = 0;

  constructor(path: string, onError: (error: Error) => void) {
    this.#path = path;
    this.#onError = onError;
  }

  /** Nothing more can be taken at the moment, or ever: leave out whole frames. */
  get isFull(): boolean {
    return this.#failed || this.#queuedBytes > MAX_QUEUED_BYTES;
  }

  append(bytes: Uint8Array): void {
    if (bytes.length === 0 || this.#failed) return;
    for (let at = 0; at < bytes.length; ) {
      this.#filling ??= this.#free.pop() ?? { bytes: new Uint8Array(CHUNK_BYTES), length: 0 };
      const chunk = this.#filling;
      const end = Math.min(bytes.length, at + CHUNK_BYTES - chunk.length);
      chunk.bytes.set(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end), chunk.length);
      chunk.length += end - at;
      at = end;
      if (chunk.length === CHUNK_BYTES) this.#enqueue();
    }
    this.#queuedBytes += bytes.length;
    this.bytes += bytes.length;
    if (this.#queue.length > 0) void this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush(), WRITE_AFTER_MS);
  }

  #enqueue(): void {
    if (this.#filling) this.#queue.push(this.#filling);
    this.#filling = null;
  }

  /** Writes what waits, the end, and what was left open in the middle. */
  async finish(tail: Uint8Array, patches: readonly Patch[]): Promise<void> {
    this.append(tail);
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
      if (this.#filling) this.#timer ??= setTimeout(() => void this.#flush(), WRITE_AFTER_MS);
    });
    return this.#writing;
  }

  async #writeQueue(): Promise<void> {
    try {
      this.#handle ??= await open(this.#path, "wx", 0o600);
      // All that waits, and what comes meanwhile as far as it fills chunks.
      this.#enqueue();
      for (let chunk = this.#queue.shift(); chunk; chunk = this.#queue.shift()) {
        const { length } = chunk;
        for (let at = 0; at < length; ) at += (await this.#handle.write(chunk.bytes, at, length - at)).bytesWritten;
        this.#queuedBytes -= length;
        chunk.length = 0;
        if (this.#free.length < KEPT_CHUNKS) this.#free.push(chunk);
      }
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
