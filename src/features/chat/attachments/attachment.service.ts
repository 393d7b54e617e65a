import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { iso } from "../../../kernel/time/clock.ts";
import type { Attachment, Metadata } from "../../../protocol/chat-records.ts";
import { ApiError, invalid } from "../../../protocol/errors.ts";
import type { StorageQuota } from "../../storage/quota.ts";
import type { Location, Storage } from "../../storage/storage.ts";
import type { Storages } from "../../storage/storages.ts";
import { type Access, requireActive, requireUnmuted } from "../access.ts";
import { emptyAsNull, fits, storedMetadata } from "../input.ts";
import type { ClaimAttachment } from "../messages/message.service.ts";
import type { AttachmentRemovals } from "./attachment.removals.ts";
import type { RequestedUpload, RequestUpload } from "./attachment.schema.ts";
import type { AttachmentStore, FoundAttachment } from "./attachment.store.ts";
import type { AttachmentRow } from "./attachment.table.ts";

export type AttachmentAccess = { access: Access; attachment: FoundAttachment };

type AttachmentDeps = {
  store: AttachmentStore;
  storages: Storages;
  removals: AttachmentRemovals;
  quota: StorageQuota;
};

/** The sealed copy of an upload; it is removed unless a message can use it before `expiresAt`. */
type Sealed = { objectKey: string; sha256: string | null; expiresAt: number };

const MIB = 1024 * 1024;
const MAX_FILENAME_LENGTH = 255;
/** Enough time to copy and hash the largest attachment in a bucket. */
const SEALING_MS = 3_600_000;

export function attachmentService({ bus, config, ids, log, now, write }: Runtime, deps: AttachmentDeps) {
  const { store, storages, removals, quota } = deps;
  const { STORAGE_MAX_ATTACHMENT_BYTES, STORAGE_UPLOAD_URL_TTL_SECONDS, STORAGE_DOWNLOAD_URL_TTL_SECONDS } = config;
  // The file is removed in the transaction of the deletion, so that a crash cannot leave it behind.
  bus.inTransaction("messageDeleted", (unit, { attachmentId }) => attachmentId !== null && release(unit, attachmentId));

  function find(attachmentId: string): FoundAttachment {
    const attachment = store.find(attachmentId);
    if (!attachment) throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
    return attachment;
  }

  function storageAt(location: Location): Storage {
    const storage = storages.at(location);
    if (!storage) throw new Error(`attachments are stored in ${location}, which is not configured`);
    return storage;
  }

  /** Copies a finished upload to a key to which no signed URL can write; null when the upload is missing. */
  async function seal({ location, objectKey, size }: AttachmentRow): Promise<Sealed | null> {
    if (objectKey === null) return null;
    try {
      const storage = storageAt(location);
      if (!(await storage.holds(objectKey, size))) return null;
      const sealedKey = storage.newObjectKey();
      if (sealedKey === null) return { objectKey, sha256: null, expiresAt: Number.POSITIVE_INFINITY };
      // The removal is queued first, so that an unused copy does not stay forever, even after a crash.
      const expiresAt = now() + SEALING_MS;
      await write((unit) => removals.queueAt(unit, expiresAt, sealedKey, location));
      const copy = await storage.seal(objectKey, sealedKey, size);
      return copy && { objectKey: sealedKey, sha256: copy.sha256, expiresAt };
    } catch (err) {
      log.error({ err, location }, "attachments: sealing an upload failed");
      throw new ApiError("SVC_STORAGE_UNAVAILABLE");
    }
  }

  /** Called when a message is deleted; the deletion of the last message that uses the file removes it. */
  function release(unit: Unit, attachmentId: string): void {
    const attachment = store.find(attachmentId);
    if (!attachment) return;
    if (attachment.messageCount > 1) {
      store.update(unit, attachment.id, { messageCount: attachment.messageCount - 1 });
      return;
    }
    store.remove(unit, attachment.id);
    removals.queue(unit, attachment);
  }

  const claim: ClaimAttachment = (unit, conversation, attachmentId, senderId) => {
    const found = store.find(attachmentId);
    if (found?.conversationId !== conversation.id) throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
    // Before an attachment is sent, only its uploader may use it.
    const isTheirs = senderId === null || found.uploaderId === null || found.uploaderId === senderId;
    if ((!isTheirs && found.messageCount === 0) || found.status === "EXPIRED") {
      throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
    }
    if (found.status === "PENDING") throw new ApiError("SVC_ATTACHMENT_NOT_READY");
    store.update(unit, found.id, { messageCount: found.messageCount + 1 });
    return present(found);
  };

  return {
    claim,
    /** Removes the file, even if messages still show it. */
    erase(unit: Unit, attachment: AttachmentRow): void {
      store.remove(unit, attachment.id);
      removals.queue(unit, attachment);
    },
    find,
    present,

    /** Issues the signed upload URL. */
    requestUpload(unit: Unit, access: Access, input: RequestUpload, publicUrl: string): RequestedUpload {
      requireActive(access);
      const at = now();
      requireUnmuted(access, at);
      // Half a surrogate pair cannot be stored as UTF-8, and the response must equal the stored name.
      const filename = input.filename.toWellFormed();
      if (!fits(filename, MAX_FILENAME_LENGTH)) {
        throw invalid("filename", `must have at most ${MAX_FILENAME_LENGTH} characters`);
      }
      if (input.size > STORAGE_MAX_ATTACHMENT_BYTES) {
        throw new ApiError(
          "SVC_ATTACHMENT_TOO_LARGE",
          `The file is too large: an attachment may have at most ${sizeText(STORAGE_MAX_ATTACHMENT_BYTES)}.`,
        );
      }
      const uploaderId = access.kind === "server" ? emptyAsNull(input.uploaderId) : access.userId;
      quota.require({ projectId: access.conversation.projectId, userId: uploaderId, bytes: input.size });
      if (storages.current === "disk" && config.COMMIT_LOG_URL !== undefined) {
        throw new ApiError(
          "SVC_STORAGE_UNAVAILABLE",
          "Servers with a commit log keep attachments in a bucket, and none is set (STORAGE_S3_BUCKET).",
        );
      }
      if (storages.current === "disk") quota.requireFree(input.size);
      const storage = storageAt(storages.current);
      const row: AttachmentRow = {
        id: ids.uuid(),
        publicId: ids.publicId("attachment"),
        conversationId: access.conversation.id,
        uploaderId,
        filename,
        mimeType: input.mimeType,
        size: input.size,
        metadata: storedMetadata(input.metadata, config.CHAT_MAX_METADATA_BYTES),
        status: "PENDING",
        sha256: null,
        location: storages.current,
        objectKey: storage.newObjectKey(),
        messageCount: 0,
        createdAt: at,
      };
      store.insert(unit, row);
      const upload = storage.signUpload({ ...row, id: row.publicId }, publicUrl, STORAGE_UPLOAD_URL_TTL_SECONDS);
      return {
        ...present({ ...row, conversationPublicId: access.conversation.publicId }),
        uploadUrl: upload.url,
        uploadMethod: "PUT",
        uploadHeaders: upload.headers,
        expiresAt: iso(at + STORAGE_UPLOAD_URL_TTL_SECONDS * 1000),
      };
    },

    /** Makes an attachment sendable if its upload has exactly the declared size. A repeated request changes nothing. */
    async complete({ access, attachment }: AttachmentAccess): Promise<Attachment> {
      const { publicId, objectKey, status } = attachment;
      const isTheirs = access.kind === "server" || attachment.uploaderId === access.userId;
      if (!isTheirs || status === "EXPIRED") throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
      if (status === "UPLOADED") return present(attachment);
      requireActive(access);
      const sealed = await seal(attachment);
      return write((unit) => {
        const current = find(publicId);
        if (current.status === "UPLOADED") return present(current);
        // Another upload may have replaced the sealed one meanwhile.
        if (!sealed || current.objectKey !== objectKey || now() >= sealed.expiresAt) {
          throw new ApiError("SVC_ATTACHMENT_NOT_READY");
        }
        const sha256 = current.sha256 ?? sealed.sha256;
        store.update(unit, current.id, { status: "UPLOADED", objectKey: sealed.objectKey, sha256 });
        if (objectKey !== null && sealed.objectKey !== objectKey) {
          removals.cancel(unit, sealed.objectKey);
          removals.queueUpload(unit, current, objectKey);
        }
        return present({ ...current, status: "UPLOADED", sha256 });
      });
    },

    signDownload({ attachment }: AttachmentAccess, publicUrl: string): { url: string; expiresAt: string } {
      if (attachment.status === "EXPIRED") throw new ApiError("SVC_ATTACHMENT_NOT_FOUND");
      if (attachment.status === "PENDING") throw new ApiError("SVC_ATTACHMENT_NOT_READY");
      const file = { ...attachment, id: attachment.publicId };
      return {
        url: storageAt(attachment.location).signDownload(file, publicUrl, STORAGE_DOWNLOAD_URL_TTL_SECONDS),
        expiresAt: iso(now() + STORAGE_DOWNLOAD_URL_TTL_SECONDS * 1000),
      };
    },
  };
}

function present(row: AttachmentRow & { conversationPublicId: string }): Attachment {
  return {
    id: row.publicId,
    conversationId: row.conversationPublicId,
    filename: row.filename,
    mimeType: row.mimeType,
    size: row.size,
    // The hash of an incomplete upload may still change.
    sha256: row.status === "UPLOADED" ? row.sha256 : null,
    status: row.status,
    uploaderId: row.uploaderId,
    metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Metadata),
    createdAt: iso(row.createdAt),
  };
}

function sizeText(bytes: number): string {
  return bytes < MIB ? `${bytes} bytes` : `${Math.floor((bytes / MIB) * 10) / 10} MiB`;
}
