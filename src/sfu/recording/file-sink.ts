// Bytes on their way to a file. The packets' thread only puts them into a queue: the disk is written beside it, and when the
// disk cannot keep up the queue is full and says so, instead of growing or holding up a packet.

import { type FileHandle, open } from "node:fs/promises";
import { concat } from "./frame.ts";
import type { Patch } from "./media-file.ts";

/** Three seconds of a track of 20 Mbit/s. */
const MAX_QUEUED_BYTES = 8 * 1024 * 1024;
/** One write for many frames; what waits is what a crash may cost. */
const WRITE_BYTES = 128 * 1024;
const WRITE_AFTER_MS = 500;

export class FileSink {
  readonly #path: string;
  readonly #onError: (error: Error) => void;
  #queue: Uint8Array[] = [];
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
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.length;
    this.bytes += bytes.length;
    if (this.#queuedBytes >= WRITE_BYTES) void this.#flush();
    else this.#timer ??= setTimeout(() => void this.#flush(), WRITE_AFTER_MS);
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
    });
    return this.#writing;
  }

  async #writeQueue(): Promise<void> {
    try {
      this.#handle ??= await open(this.#path, "wx", 0o600);
      while (this.#queue.length > 0) {
        const bytes = concat(this.#queue);
        this.#queue = [];
        for (let at = 0; at < bytes.length; ) at += (await this.#handle.write(bytes, at)).bytesWritten;
        this.#queuedBytes -= bytes.length;
      }
    } catch (error) {
      this.#fail(error as Error);
    }
  }

  #fail(error: Error): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#onError(error);
  }
}
