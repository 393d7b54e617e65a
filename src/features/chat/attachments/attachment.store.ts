import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment } from "../../../protocol/enums.ts";
import type { Location } from "../../storage/storage.ts";
import { type AttachmentRow, attachments, type StorageRemovalRow, storageRemovals } from "./attachment.table.ts";

/** An attachment with the fields of its conversation that every request needs. */
export type FoundAttachment = AttachmentRow & {
  conversationPublicId: string;
  projectId: string;
  environment: Environment;
};

export type AttachmentStore = ReturnType<typeof attachmentStore>;

export function attachmentStore({ $client: client }: Db) {
  const byPublicId = reading(() =>
    client.prepare<FoundAttachment, [string]>(
      `SELECT ${columnsOf(attachments, "a")},
       c.public_id AS conversationPublicId, c.project_id AS projectId, c.environment AS environment
     FROM attachments a JOIN conversations c ON c.id = a.conversation_id WHERE a.public_id = ?`,
    ),
  );
  const byObjectKey = reading(() => client.prepare("SELECT 1 FROM attachments WHERE object_key = ?"));
  const setUploadedObject = changing(() =>
    client.prepare("UPDATE attachments SET object_key = ?2, sha256 = ?3 WHERE id = ?1"),
  );
  const complete = changing(() =>
    client.prepare("UPDATE attachments SET status = 'UPLOADED', object_key = ?2, sha256 = ?3 WHERE id = ?1"),
  );
  const countMessages = changing(() => client.prepare("UPDATE attachments SET message_count = ?2 WHERE id = ?1"));
  const expire = changing(() =>
    client.prepare("UPDATE attachments SET status = 'EXPIRED', object_key = NULL, sha256 = NULL WHERE id = ?"),
  );
  const remove = changing(() => client.prepare("DELETE FROM attachments WHERE id = ?"));
  // With a bound value instead of the literal 0, SQLite would not use the partial index.
  const unsent = reading(() =>
    client.prepare<AttachmentRow, [number, number]>(
      `SELECT ${columnsOf(attachments)} FROM attachments
     WHERE message_count = 0 AND status IN ('PENDING', 'UPLOADED') AND created_at < ? ORDER BY created_at LIMIT ?`,
    ),
  );
  const forgetExpired = changing(() =>
    client.prepare(
      `DELETE FROM attachments WHERE id IN (SELECT id FROM attachments
       WHERE message_count = 0 AND status = 'EXPIRED' AND created_at < ? LIMIT ?)`,
    ),
  );
  const queue = changing(() => client.prepare("INSERT INTO storage_removals VALUES (?, ?, ?) ON CONFLICT DO NOTHING"));
  const queued = reading(() =>
    client.prepare<StorageRemovalRow, [number, number]>(
      `SELECT ${columnsOf(storageRemovals)} FROM storage_removals WHERE queued_at <= ? ORDER BY queued_at LIMIT ?`,
    ),
  );
  const removed = changing(() => client.prepare("DELETE FROM storage_removals WHERE object_key = ?"));

  return {
    insert: inserter<AttachmentRow>(client, attachments),
    find: (publicId: string): FoundAttachment | null => byPublicId.get(publicId),
    hasObject: (objectKey: string): boolean => byObjectKey.get(objectKey) !== null,
    setUploadedObject: (unit: Unit, id: string, objectKey: string, sha256: string) =>
      void setUploadedObject.run(unit, id, objectKey, sha256),
    complete: (unit: Unit, id: string, objectKey: string, sha256: string | null) =>
      void complete.run(unit, id, objectKey, sha256),
    countMessages: (unit: Unit, id: string, messageCount: number) => void countMessages.run(unit, id, messageCount),
    expire: (unit: Unit, id: string) => void expire.run(unit, id),
    remove: (unit: Unit, id: string) => void remove.run(unit, id),
    /** Unexpired attachments that were never sent and are older than `before`, oldest first. */
    unsent: (before: number, limit: number): AttachmentRow[] => unsent.all(before, limit),
    forgetExpired: (unit: Unit, before: number, limit: number) => void forgetExpired.run(unit, before, limit),

    queueRemoval: (unit: Unit, objectKey: string, location: Location, at: number) =>
      void queue.run(unit, objectKey, location, at),
    /** Due removals, oldest first. */
    queuedRemovals: (now: number, limit: number): StorageRemovalRow[] => queued.all(now, limit),
    removed: (unit: Unit, objectKey: string) => void removed.run(unit, objectKey),
  };
}
