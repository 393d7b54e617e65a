import { rm } from "node:fs/promises";
import type { Runtime } from "../../../kernel/runtime.ts";
import { BucketError, type BucketUploads } from "../../storage/s3-uploads.ts";
import type { Storages } from "../../storage/storages.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import { objectKeyOf } from "./object-key.ts";
import type { PlacesStore } from "./places.store.ts";

const MIB = 1024 * 1024;
/** What goes at once, and how large a part is; S3 takes ten thousand of them. */
const PART_BYTES = 16 * MIB;
const MOST_PARTS = 10_000;
const READ_AT_ONCE = 50;
/** So many in a row, and the bucket has trouble: the next turn tries again. */
const FAILURES = 3;

/** Every part but the last is as long. */
export const partBytesFor = (size: number): number => Math.max(PART_BYTES, MIB * Math.ceil(size / MOST_PARTS / MIB));

type Deps = { store: RecordingStore; places: PlacesStore; folder: RecordingFolder; storages: Storages };

/**
 * Moves the files of ended recordings to the bucket, one after the other. What a restart cuts off goes on with the part
 * that was missing; until the bucket has a file whole, it lies and is read here.
 */
export function createUploads({ log, write }: Runtime, { store, places, folder, storages }: Deps) {
  const stopping = new AbortController();
  let running: Promise<void> | null = null;
  let asked = false;
  let current: { fileId: string; abort: AbortController; ended: Promise<void> } | null = null;

  async function moveAll(bucket: BucketUploads): Promise<void> {
    await removeAbandoned(bucket);
    let failures = 0;
    for (let after = { recordingId: "", id: "" }; ; ) {
      const page = places.settledHere(after, READ_AT_ONCE);
      for (const file of page) {
        if (stopping.signal.aborted) return;
        after = file;
        const bytes = await folder.bytes(file.recordingId, file.fileName);
        if (bytes === null) continue;
        try {
          await move(bucket, file, bytes);
          failures = 0;
        } catch (err) {
          if (stopping.signal.aborted) return;
          failures += 1;
          log.warn({ err, recordingId: file.recordingId }, "a recorded file is not in the bucket yet");
          if (failures === FAILURES) return;
        }
      }
      if (page.length < READ_AT_ONCE) return;
    }
  }

  async function move(bucket: BucketUploads, file: RecordingFileRow, bytes: number): Promise<void> {
    const objectKey = objectKeyOf(file);
    const abort = new AbortController();
    const ended = Promise.withResolvers<void>();
    current = { fileId: file.id, abort, ended: ended.promise };
    const signal = AbortSignal.any([abort.signal, stopping.signal]);
    try {
      const content = Bun.file(folder.file(file.recordingId, file.fileName), { type: file.mimeType });
      if (bytes <= PART_BYTES) {
        await write((unit) => places.saveUpload(unit, { objectKey, fileId: file.id, uploadId: null, etags: [] }));
        await bucket.put(objectKey, content, signal);
      } else await inParts(bucket, file, content, bytes, signal);
      if (!(await storages.at("s3")?.holds(objectKey, bytes))) throw new BucketError("another size than was sent");
      const isMoved = await write((unit) => {
        // Deleted meanwhile: whoever did it, or the next look, takes it out of the bucket.
        if (!store.file(file.id)) return false;
        places.move(unit, file, "s3", bytes);
        places.removeUpload(unit, objectKey);
        return true;
      });
      // Whoever makes a film of it removes it afterwards.
      const isWatched = store.get(file.recordingId)?.composition?.status === "RUNNING";
      if (isMoved && !isWatched) await rm(folder.file(file.recordingId, file.fileName), { force: true });
    } finally {
      current = null;
      ended.resolve();
    }
  }

  async function inParts(
    bucket: BucketUploads,
    file: RecordingFileRow,
    content: Bun.BunFile,
    bytes: number,
    signal: AbortSignal,
  ): Promise<void> {
    const objectKey = objectKeyOf(file);
    const save = (uploadId: string, etags: string[]) =>
      write((unit) => places.saveUpload(unit, { objectKey, fileId: file.id, uploadId, etags }));
    const known = places.upload(objectKey);
    let uploadId = known?.uploadId ?? null;
    const etags = uploadId === null ? [] : [...(known?.etags ?? [])];
    if (uploadId === null) {
      uploadId = await bucket.begin(objectKey, file.mimeType, signal);
      await save(uploadId, etags);
    }
    const partBytes = partBytesFor(bytes);
    try {
      for (let at = etags.length * partBytes; at < bytes; at += partBytes) {
        const part = content.slice(at, Math.min(bytes, at + partBytes));
        etags.push(await bucket.part(objectKey, uploadId, etags.length + 1, part, signal));
        await save(uploadId, etags);
      }
      await bucket.complete(objectKey, uploadId, etags, signal);
    } catch (error) {
      // Given up by the bucket, or complete already: from the beginning, under a new number.
      if (error instanceof BucketError && ["NoSuchUpload", "InvalidPart", "InvalidPartOrder"].includes(error.code))
        await write((unit) => places.saveUpload(unit, { objectKey, fileId: file.id, uploadId: null, etags: [] }));
      throw error;
    }
  }

  /** Of files that were deleted while they were on their way. */
  async function removeAbandoned(bucket: BucketUploads): Promise<void> {
    for (const { objectKey, uploadId } of places.abandonedUploads()) {
      try {
        if (uploadId !== null) await bucket.abandon(objectKey, uploadId);
        await storages.at("s3")?.remove(objectKey);
        await write((unit) => places.removeUpload(unit, objectKey));
      } catch (err) {
        log.warn({ err }, "what a deleted recording left in the bucket is still there");
      }
    }
  }

  return {
    /** One at a time; asked again meanwhile, it looks again. */
    run(): Promise<void> {
      const { uploads: bucket } = storages;
      if (bucket === null || stopping.signal.aborted) return Promise.resolve();
      asked = true;
      running ??= (async () => {
        try {
          while (asked && !stopping.signal.aborted) {
            asked = false;
            await moveAll(bucket);
          }
        } finally {
          running = null;
        }
      })();
      return running;
    },

    /** These were deleted: one that is on its way is not sent to its end, and nothing of it stays in the bucket. */
    async giveUp(fileIds: readonly string[]): Promise<void> {
      const { uploads: bucket } = storages;
      if (bucket === null) return;
      if (current && fileIds.includes(current.fileId)) {
        current.abort.abort();
        await current.ended;
      }
      await removeAbandoned(bucket);
    },

    /** What is half-way goes on after the next start. */
    async stop(): Promise<void> {
      stopping.abort();
      await running;
    },
  };
}
