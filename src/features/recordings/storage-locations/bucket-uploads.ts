import { rm } from "node:fs/promises";
import type { Runtime } from "../../../kernel/runtime.ts";
import { SerialRun } from "../../../kernel/scheduling/serial-run.ts";
import { BucketError, type BucketUploads } from "../../storage/s3-uploads.ts";
import type { Storages } from "../../storage/storages.ts";
import type { RecordingStore } from "../recording.store.ts";
import type { RecordingFileRow } from "../recording.table.ts";
import type { RecordingFolder } from "../recording-folder.ts";
import { objectKeyOf, type StorageLocationStore } from "./storage-locations.store.ts";

const MIB = 1024 * 1024;
/** Smaller files are uploaded in one request. S3 accepts at most ten thousand parts. */
const PART_BYTES = 16 * MIB;
const MAX_PARTS = 10_000;
const FILES_PER_PAGE = 50;
/** After this many consecutive failures the pass ends, and the next pass retries. */
const MAX_FAILURES = 3;

/** All parts but the last have this size. */
const partBytesFor = (size: number): number => Math.max(PART_BYTES, MIB * Math.ceil(size / MAX_PARTS / MIB));

type Deps = { store: RecordingStore; locations: StorageLocationStore; folder: RecordingFolder; storages: Storages };

/**
 * Uploads the files of ended recordings to the bucket, one after the other. After a restart an upload continues with
 * the first missing part. Until the upload is complete, the file is read from this disk.
 */
export function createBucketUploads({ log, write }: Runtime, { store, locations, folder, storages }: Deps) {
  const stopping = new AbortController();
  const passes = new SerialRun(moveAll);
  let current: { fileId: string; abort: AbortController; ended: Promise<void> } | null = null;

  async function moveAll(): Promise<void> {
    const { uploads: bucket } = storages;
    if (bucket === null || stopping.signal.aborted) return;
    await removeAbandoned(bucket);
    let failures = 0;
    for (let after = { recordingId: "", id: "" }; ; ) {
      const page = locations.endedOnDisk(after, FILES_PER_PAGE);
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
          log.warn({ err, recordingId: file.recordingId }, "recordings: upload to bucket failed");
          if (failures === MAX_FAILURES) return;
        }
      }
      if (page.length < FILES_PER_PAGE) return;
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
        await write((unit) => locations.saveUpload(unit, { objectKey, fileId: file.id, uploadId: null, etags: [] }));
        await bucket.put(objectKey, content, signal);
      } else await uploadParts(bucket, file, content, bytes, signal);
      if (!(await storages.at("s3")?.holds(objectKey, bytes)))
        throw new BucketError("the uploaded file has another size");
      const isMoved = await write((unit) => {
        // The file was deleted meanwhile: the deletion, or the next pass, removes it from the bucket.
        if (!store.file(file.id)) return false;
        locations.move(unit, file, "s3", bytes);
        locations.removeUpload(unit, objectKey);
        return true;
      });
      // A composition that reads the local file removes it afterwards.
      const isComposing = store.get(file.recordingId)?.composition?.status === "RUNNING";
      if (isMoved && !isComposing) await rm(folder.file(file.recordingId, file.fileName), { force: true });
    } finally {
      current = null;
      ended.resolve();
    }
  }

  async function uploadParts(
    bucket: BucketUploads,
    file: RecordingFileRow,
    content: Bun.BunFile,
    bytes: number,
    signal: AbortSignal,
  ): Promise<void> {
    const objectKey = objectKeyOf(file);
    const save = (uploadId: string, etags: string[]) =>
      write((unit) => locations.saveUpload(unit, { objectKey, fileId: file.id, uploadId, etags }));
    const known = locations.upload(objectKey);
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
      // The bucket dropped the upload, or has completed it: the next attempt starts a new upload.
      if (error instanceof BucketError && ["NoSuchUpload", "InvalidPart", "InvalidPartOrder"].includes(error.code))
        await write((unit) => locations.saveUpload(unit, { objectKey, fileId: file.id, uploadId: null, etags: [] }));
      throw error;
    }
  }

  /** Removes uploads whose files were deleted in the meantime. */
  async function removeAbandoned(bucket: BucketUploads): Promise<void> {
    for (const { objectKey, uploadId } of locations.abandonedUploads()) {
      try {
        if (uploadId !== null) await bucket.abandon(objectKey, uploadId);
        await storages.at("s3")?.remove(objectKey);
        await write((unit) => locations.removeUpload(unit, objectKey));
      } catch (err) {
        log.warn({ err }, "recordings: abandoned upload not removed");
      }
    }
  }

  return {
    run: (): Promise<void> => passes.run(),

    /** Stops the upload of deleted files and removes those that are already in the bucket. */
    async cancel(fileIds: readonly string[]): Promise<void> {
      const { uploads: bucket } = storages;
      if (bucket === null) return;
      if (current && fileIds.includes(current.fileId)) {
        current.abort.abort();
        await current.ended;
      }
      await removeAbandoned(bucket);
    },

    /** An unfinished upload continues after the next start. */
    async stop(): Promise<void> {
      stopping.abort();
      await passes.running;
    },
  };
}
