import type { Runtime } from "../../../kernel/runtime.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { Download } from "../../storage/download.ts";
import type { StorageQuota } from "../../storage/quota.ts";
import type { Storages } from "../../storage/storages.ts";
import type { AttachmentRemovals } from "./attachment.removals.ts";
import type { AttachmentStore, FoundAttachment } from "./attachment.store.ts";

type TransferDeps = {
  store: AttachmentStore;
  storages: Storages;
  removals: AttachmentRemovals;
  quota: StorageQuota;
  /** Throws unless the project allows this browser origin. */
  requireAllowedOrigin: (projectId: string, origin: string | null) => void;
};

/** A request to a signed URL; the signature is its credential. */
type SignedRequest = { id: string; query: URLSearchParams; origin: string | null };

type Upload = SignedRequest & { body: ReadableStream<Uint8Array> | null; contentLength: number | null };

/**
 * A retry may overlap with its own dead connection; more parallel uploads would fill the disk with copies of one file.
 */
const MAX_PARALLEL_UPLOADS = 4;

/** Uploads to and downloads from this server's disk. */
export function attachmentTransfers({ ids, log, write }: Runtime, deps: TransferDeps) {
  const { store, storages, removals, quota, requireAllowedOrigin } = deps;
  const { disk, signer } = storages;

  function find({ id, origin }: SignedRequest): FoundAttachment {
    const attachment = store.find(id);
    if (attachment?.location !== "disk" || attachment.status === "EXPIRED") {
      throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
    }
    requireAllowedOrigin(attachment.projectId, origin);
    return attachment;
  }

  function findPending(request: SignedRequest): FoundAttachment {
    const attachment = find(request);
    if (attachment.status !== "PENDING") throw new ApiError("SVC_CONFLICT", "The attachment is complete already.");
    return attachment;
  }

  /** A full or broken disk is not an error of the caller and is answered with 503. */
  async function fromDisk<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (err) {
      if (err instanceof ApiError) throw err;
      log.error({ err }, "attachments: disk operation failed");
      throw new ApiError("SVC_STORAGE_UNAVAILABLE");
    }
  }

  const activeUploads = new Map<string, number>();
  async function limitUploads<T>(id: string, work: () => Promise<T>): Promise<T> {
    const others = activeUploads.get(id) ?? 0;
    if (others >= MAX_PARALLEL_UPLOADS) {
      throw new ApiError("SVC_CONFLICT", "Too many uploads of this attachment are under way.");
    }
    activeUploads.set(id, others + 1);
    try {
      return await work();
    } finally {
      const remaining = (activeUploads.get(id) ?? 1) - 1;
      if (remaining > 0) activeUploads.set(id, remaining);
      else activeUploads.delete(id);
    }
  }

  return {
    /** Of several uploads to one URL, the last complete one is used. */
    async receive(request: Upload): Promise<{ id: string; size: number; sha256: string }> {
      signer.check("PUT", request.id, request.query);
      const { size } = findPending(request);
      if (request.contentLength !== null && request.contentLength > size) {
        throw new ApiError("SVC_ATTACHMENT_TOO_LARGE", `The file is larger than the declared ${size} bytes.`);
      }
      const objectKey = ids.uuid();
      const receive = () => fromDisk(disk.receive(objectKey, request.body, size));
      const sha256 = await limitUploads(request.id, () => quota.reserve(size, receive));
      try {
        await write((unit) => {
          const attachment = findPending(request);
          removals.queue(unit, attachment);
          store.update(unit, attachment.id, { objectKey, sha256 });
        });
      } catch (error) {
        await disk.remove(objectKey);
        throw error;
      }
      if (!(await fromDisk(disk.keep(objectKey)))) {
        throw new ApiError("SVC_CONFLICT", "Another upload replaced this one.");
      }
      return { id: request.id, size, sha256 };
    },

    async open(request: SignedRequest): Promise<Download> {
      const { expiresAt } = signer.check("GET", request.id, request.query);
      const { status, objectKey, filename, mimeType, size, sha256 } = find(request);
      const file = status === "UPLOADED" && objectKey !== null ? await disk.read(objectKey) : null;
      if (!file) {
        log.error({ attachmentId: request.id }, "attachments: file missing");
        throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
      }
      return { file, filename, mimeType, size, sha256, expiresAt };
    },

    /** Finishes or removes uploads that a crash interrupted; runs before the first request. */
    async recover(): Promise<void> {
      const counts = await disk.recover((objectKey) => store.hasObject(objectKey));
      if (counts.kept + counts.removed > 0)
        log.info(counts, "attachments: interrupted uploads of the last run recovered");
      await removals.run();
    },
  };
}
