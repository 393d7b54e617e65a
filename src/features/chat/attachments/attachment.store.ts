import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading, updater } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment } from "../../../protocol/enums.ts";
import { type AttachmentRow, attachments, type StorageRemovalRow, storageRemovals } from "./attachment.table.ts";

/** An attachment with the fields of its conversation that every request needs. */
export type FoundAttachment = AttachmentRow & {
  conversationPublicId: string;
  projectId: string;
  environment: Environment;
};

export type AttachmentStore = ReturnType<typeof attachmentStore>;

export function attachmentStore({ $client: client }: Db) {
  const byPublicId = reading<FoundAttachment, [string]>(
    client,
    `SELECT ${columnsOf(attachments, "a")},
       c.public_id AS conversationPublicId, c.project_id AS projectId, c.environment AS environment
     FROM attachments a JOIN conversations c ON c.id = a.conversation_id WHERE a.public_id = ?`,
  );
  const byObjectKey = reading(client, "SELECT 1 FROM attachments WHERE object_key = ?");
  const remove = changing(client, "DELETE FROM attachments WHERE id = ?");
  // With a bound value instead of the literal 0, SQLite would not use the partial index.
  const unsent = reading<AttachmentRow, [number, number]>(
    client,
    `SELECT ${columnsOf(attachments)} FROM attachments
     WHERE message_count = 0 AND status IN ('PENDING', 'UPLOADED') AND created_at < ? ORDER BY created_at LIMIT ?`,
  );
  const forgetExpired = changing(
    client,
    `DELETE FROM attachments WHERE id IN (SELECT id FROM attachments
       WHERE message_count = 0 AND status = 'EXPIRED' AND created_at < ? LIMIT ?)`,
  );
  const queued = reading<StorageRemovalRow, [number, number]>(
    client,
    `SELECT ${columnsOf(storageRemovals)} FROM storage_removals WHERE queued_at <= ? ORDER BY queued_at LIMIT ?`,
  );
  const removed = changing(client, "DELETE FROM storage_removals WHERE object_key = ?");

  return {
    insert: inserter<AttachmentRow>(client, attachments),
    find: (publicId: string): FoundAttachment | null => byPublicId.get(publicId),
    hasObject: (objectKey: string): boolean => byObjectKey.get(objectKey) !== null,
    update: updater(client, attachments),
    remove: (unit: Unit, id: string) => void remove.run(unit, id),
    /** Unexpired attachments that were never sent and are older than `before`, oldest first. */
    unsent: (before: number, limit: number): AttachmentRow[] => unsent.all(before, limit),
    forgetExpired: (unit: Unit, before: number, limit: number) => void forgetExpired.run(unit, before, limit),

    queueRemoval: inserter<StorageRemovalRow>(client, storageRemovals, "ON CONFLICT DO NOTHING"),
    /** Due removals, oldest first. */
    queuedRemovals: (now: number, limit: number): StorageRemovalRow[] => queued.all(now, limit),
    removed: (unit: Unit, objectKey: string) => void removed.run(unit, objectKey),
  };
}
