import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { type AttachmentRow, attachments } from "../../chat/attachments/attachment.table.ts";
import { type ChatConnectionRow, chatConnections } from "../../chat/store/connection.table.ts";
import {
  type ConversationRow,
  conversationMembers,
  conversations,
  type MemberRow,
} from "../../chat/store/conversation.table.ts";
import { type MessageRow, messages, type ReadStateRow, readStates } from "../../chat/store/message.table.ts";
import { ERASED, type Person } from "../person.ts";

export type GivenReaction = { id: number; emoji: string; createdAt: number; messageId: string; conversationId: string };
type NamingEvent = { seq: number; detail: string };

export type ChatTraces = ReturnType<typeof chatTraces>;

/** Where chat holds a person. Nothing is indexed by user alone, so that a send stays cheap: conversation by conversation. */
export function chatTraces({ $client: client }: Db) {
  const inConversation = (columns: string, table: string, rest = "") =>
    `SELECT ${columns} FROM ${table} WHERE conversation_id = ?1 AND user_id = ?2 ${rest}`;
  const page = reading(() =>
    client.prepare<ConversationRow, [string, string, string, number]>(
      `SELECT ${columnsOf(conversations)} FROM conversations
       WHERE project_id = ? AND environment = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
  );
  const sent = reading(() =>
    client.prepare<MessageRow, [string, string, number, number]>(
      `SELECT ${columnsOf(messages)} FROM messages
       WHERE conversation_id = ? AND sender_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
    ),
  );
  const countSent = reading(() =>
    client.prepare<{ count: number }, [string, string]>(
      "SELECT count(*) AS count FROM messages WHERE conversation_id = ? AND sender_id = ?",
    ),
  );
  const member = reading(() =>
    client.prepare<MemberRow, [string, string]>(inConversation(columnsOf(conversationMembers), "conversation_members")),
  );
  const readState = reading(() =>
    client.prepare<ReadStateRow, [string, string]>(inConversation(columnsOf(readStates), "read_states")),
  );
  const removeReadState = changing(() =>
    client.prepare("DELETE FROM read_states WHERE conversation_id = ? AND user_id = ?"),
  );
  const uploaded = reading(() =>
    client.prepare<AttachmentRow, [string, string]>(
      `SELECT ${columnsOf(attachments)} FROM attachments WHERE conversation_id = ? AND uploader_id = ? ORDER BY id`,
    ),
  );
  const showing = reading(() =>
    client.prepare<MessageRow, [string, string, string, number]>(
      `SELECT ${columnsOf(messages)} FROM messages WHERE conversation_id = ?1 AND attachment IS NOT NULL
       AND instr(attachment, ?2) > 0 AND json_extract(attachment, '$.uploaderId') = ?3 ORDER BY seq LIMIT ?4`,
    ),
  );
  const takeAttachment = changing(() =>
    client.prepare("UPDATE messages SET attachment = NULL, updated_at = ?2 WHERE id = ?1"),
  );
  const deleted = reading(() =>
    client.prepare<{ one: number }, [string, string]>(
      `SELECT 1 AS one FROM messages WHERE conversation_id = ? AND deleted_at IS NOT NULL AND deleted_by = ? LIMIT 1`,
    ),
  );
  const undoDeleter = changing(() =>
    client.prepare(
      `UPDATE messages SET deleted_by = '${ERASED}'
       WHERE conversation_id = ?1 AND deleted_at IS NOT NULL AND deleted_by = ?2`,
    ),
  );
  const eventBound = reading(() =>
    client.prepare<{ seq: number | null }, [string, number, number]>(
      `SELECT max(seq) AS seq FROM
       (SELECT seq FROM conversation_events WHERE conversation_id = ? AND seq > ? ORDER BY seq LIMIT ?)`,
    ),
  );
  const naming = reading(() =>
    client.prepare<NamingEvent, [string, number, number, string]>(
      `SELECT seq, detail FROM conversation_events
       WHERE conversation_id = ? AND seq > ? AND seq <= ? AND detail IS NOT NULL AND instr(detail, ?) > 0`,
    ),
  );
  const rewriteEvent = changing(() =>
    client.prepare("UPDATE conversation_events SET detail = ?3 WHERE conversation_id = ?1 AND seq = ?2"),
  );
  // In this order: by itself SQLite begins with the tenant's conversations, and goes through every message of them.
  const given = reading(() =>
    client.prepare<GivenReaction, [number, number, string, string, string]>(
      `SELECT r.id, r.emoji, r.created_at AS createdAt, m.public_id AS messageId, c.id AS conversationId
       FROM message_reactions r CROSS JOIN messages m ON m.id = r.message_id
         CROSS JOIN conversations c ON c.id = m.conversation_id
       WHERE r.id > ? AND r.id <= ? AND r.user_id = ? AND c.project_id = ? AND c.environment = ? ORDER BY r.id`,
    ),
  );
  const connected = reading(() =>
    client.prepare<ChatConnectionRow, [number, number, string, string, string]>(
      `SELECT ${columnsOf(chatConnections)} FROM chat_connections
       WHERE rowid > ? AND rowid <= ? AND user_id = ? AND project_id = ? AND environment = ?`,
    ),
  );
  const removeConnection = changing(() => client.prepare("DELETE FROM chat_connections WHERE id = ?"));
  // A token that nobody knows would count again after a restart: it stays revoked until it is over, without the name.
  const forgetTokens = changing(() =>
    client.prepare(
      `UPDATE chat_tokens SET user_id = '${ERASED}', revoked_at = ifnull(revoked_at, ?4)
       WHERE project_id = ?1 AND environment = ?2 AND user_id = ?3`,
    ),
  );

  return {
    conversations: ({ projectId, environment }: Tenant, afterId: string, limit: number): ConversationRow[] =>
      page.all(projectId, environment, afterId, limit),
    sent: (conversationId: string, userId: string, afterSeq: number, limit: number): MessageRow[] =>
      sent.all(conversationId, userId, afterSeq, limit),
    countSent: (conversationId: string, userId: string): number => countSent.get(conversationId, userId)?.count ?? 0,
    member: (conversationId: string, userId: string): MemberRow | null => member.get(conversationId, userId),
    readState: (conversationId: string, userId: string): ReadStateRow | null => readState.get(conversationId, userId),
    removeReadState: (unit: Unit, conversationId: string, userId: string) =>
      void removeReadState.run(unit, conversationId, userId),
    uploaded: (conversationId: string, userId: string): AttachmentRow[] => uploaded.all(conversationId, userId),
    /** Messages of others that show a file of theirs. */
    showing: (conversationId: string, userId: string, limit: number): MessageRow[] =>
      showing.all(conversationId, JSON.stringify(userId), userId, limit),
    takeAttachment: (unit: Unit, messageId: number, at: number) => void takeAttachment.run(unit, messageId, at),
    /** Whether they deleted messages, of others say. */
    hasDeleted: (conversationId: string, userId: string): boolean => deleted.get(conversationId, userId) !== null,
    undoDeleter: (unit: Unit, conversationId: string, userId: string) =>
      void undoDeleter.run(unit, conversationId, userId),

    /** The next stretch of a conversation's log: up to which event, and those in it that name the user. */
    events(conversationId: string, userId: string, afterSeq: number, limit: number) {
      const until = eventBound.get(conversationId, afterSeq, limit)?.seq ?? null;
      if (until === null) return null;
      return { until, naming: naming.all(conversationId, afterSeq, until, JSON.stringify(userId)) };
    },
    rewriteEvent: (unit: Unit, conversationId: string, seq: number, detail: string) =>
      void rewriteEvent.run(unit, conversationId, seq, detail),

    reactions: ({ projectId, environment, userId }: Person, after: number, until: number): GivenReaction[] =>
      given.all(after, until, userId, projectId, environment),
    connections: ({ projectId, environment, userId }: Person, after: number, until: number): ChatConnectionRow[] =>
      connected.all(after, until, userId, projectId, environment),
    removeConnection: (unit: Unit, id: string) => void removeConnection.run(unit, id),
    forgetTokens: (unit: Unit, { projectId, environment, userId }: Person, at: number) =>
      void forgetTokens.run(unit, projectId, environment, userId, at),
  };
}
