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
  judgeOrigin: (projectId: string, origin: string | null) => void;
};

/** A request with a signed address: the signature is its credential. */
type SignedRequest = { id: string; query: URLSearchParams; origin: string | null };

export type Upload = SignedRequest & { body: ReadableStream<Uint8Array> | null; contentLength: number | null };

/** A client that tries again may overtake its own dead connection; more would fill the disk with copies of one file. */
const UPLOADS_AT_ONCE = 4;

/** Bytes on their way to and from this server's disk. */
export function attachmentTransfers({ ids, log, write }: Runtime, deps: TransferDeps) {
  const { store, storages, removals, quota, judgeOrigin } = deps;
  const { disk, signer } = storages;

  function found({ id, origin }: SignedRequest): FoundAttachment {
    const attachment = store.find(id);
    if (attachment?.location !== "disk" || attachment.status === "EXPIRED") {
      throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
    }
    judgeOrigin(attachment.projectId, origin);
    return attachment;
  }

  function pending(request: SignedRequest): FoundAttachment {
    const attachment = found(request);
    if (attachment.status !== "PENDING") throw new ApiError("SVC_CONFLICT", "The attachment is complete already.");
    return attachment;
  }

  /** A disk that is full or broken is not the caller's fault, and may be mended. */
  async function stored<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (err) {
      if (err instanceof ApiError) throw err;
      log.error({ err }, "a file could not be stored");
      throw new ApiError("SVC_STORAGE_UNAVAILABLE");
    }
  }

  const underWay = new Map<string, number>();
  async function oneOfFew<T>(id: string, work: () => Promise<T>): Promise<T> {
    const others = underWay.get(id) ?? 0;
    if (others >= UPLOADS_AT_ONCE) {
      throw new ApiError("SVC_CONFLICT", "Too many uploads of this attachment are under way.");
    }
    underWay.set(id, others + 1);
    try {
      return await work();
    } finally {
      const left = (underWay.get(id) ?? 1) - 1;
      if (left > 0) underWay.set(id, left);
      else underWay.delete(id);
    }
  }

  return {
    /** Of several uploads to one address the last to arrive whole counts. */
    async receive(request: Upload): Promise<{ id: string; size: number; sha256: string }> {
      signer.check("PUT", request.id, request.query);
      const { size } = pending(request);
      if (request.contentLength !== null && request.contentLength > size) {
        throw new ApiError("SVC_ATTACHMENT_TOO_LARGE", `The file is larger than the declared ${size} bytes.`);
      }
      const objectKey = ids.uuid();
      const receive = () => stored(disk.receive(objectKey, request.body, size));
      const sha256 = await oneOfFew(request.id, () => quota.reserve(size, receive));
      try {
        await write((unit) => {
          const attachment = pending(request);
          removals.queue(unit, attachment);
          store.arrived(unit, attachment.id, objectKey, sha256);
        });
      } catch (error) {
        await disk.remove(objectKey);
        throw error;
      }
      if (!(await stored(disk.keep(objectKey))))
        throw new ApiError("SVC_CONFLICT", "Another upload took the place of this one.");
      return { id: request.id, size, sha256 };
    },

    async open(request: SignedRequest): Promise<Download> {
      const { expiresAt } = signer.check("GET", request.id, request.query);
      const { status, objectKey, filename, mimeType, size, sha256 } = found(request);
      const file = status === "UPLOADED" && objectKey !== null ? await disk.read(objectKey) : null;
      if (!file) {
        log.error({ attachmentId: request.id }, "the file of an attachment is missing");
        throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
      }
      return { file, filename, mimeType, size, sha256, expiresAt };
    },

    /** Before the first request: what a crash left half-way is finished or removed. */
    async recover(): Promise<void> {
      const counts = await disk.recover((objectKey) => store.names(objectKey));
      if (counts.kept + counts.removed > 0) log.info(counts, "uploads left by the last run");
      await removals.run();
    },
  };
}
