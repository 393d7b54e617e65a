import type { SQLQueryBindings } from "bun:sqlite";
import type { Db } from "../../kernel/db/open.ts";
import { pages, ROWS_PER_PAGE, rowPages, tenantPages } from "../../kernel/db/pages.ts";
import { changing, columnsOf, reading } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { ERASED, type PersonalColumns, type User } from "../../kernel/personal-data.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { type AttachmentRow, attachments } from "./attachments/attachment.table.ts";
import { type RingMemberRow, type RingRow, rings } from "./calls/ring.table.ts";
import {
  type ConversationRow,
  conversationMembers,
  conversations,
  type MemberRow,
} from "./conversations/conversation.table.ts";
import { type MessageRow, messages, type ReadStateRow, readStates } from "./messages/message.table.ts";
import { type BlockRow, chatBlocks, messageReports, type ReportRow } from "./moderation/moderation.table.ts";
import { type ChatConnectionRow, chatConnections } from "./socket/connection.table.ts";

const OF_CONVERSATION = "JOIN conversations c ON c.id = conversation_id";

export const chatPersonalColumns: PersonalColumns = {
  userIds: {
    "messages.sender_id": OF_CONVERSATION,
    "messages.deleted_by": OF_CONVERSATION,
    "conversation_members.user_id": OF_CONVERSATION,
    "read_states.user_id": OF_CONVERSATION,
    "attachments.uploader_id": OF_CONVERSATION,
    "message_reactions.user_id": `JOIN messages m ON m.id = message_id ${OF_CONVERSATION}`,
    "message_mentions.user_id": OF_CONVERSATION,
    "rings.caller_user_id": "",
    "ring_members.user_id": "JOIN rings r ON r.id = ring_id",
    "chat_blocks.user_id": "",
    "chat_blocks.blocked_user_id": "",
    "message_reports.sender_id": "",
    "message_reports.reporter_user_id": "",
    "chat_connections.user_id": "",
    "chat_tokens.user_id": "",
  },
  content: [
    "messages.text",
    "messages.metadata",
    "messages.mentions",
    "messages.attachment",
    "messages.client_message_id",
    "attachments.filename",
    "attachments.metadata",
    "conversation_members.name",
    "conversation_members.metadata",
    "conversation_events.detail",
    "message_reports.note_text",
    "rings.metadata",
    "chat_connections.ip_address",
    "chat_connections.user_agent",
    // Triggers update the bytes per uploader, over all environments of a project.
    "storage_usage.user_id",
    "idempotency_keys.body",
  ],
};

type InConversation = { conversationPublicId: string };
type AddedReaction = { emoji: string; createdAt: number; messageId: string; conversationId: string };
type UserRing = RingRow & { answer: RingMemberRow["status"] | null };

/** Only few rows of a page of conversations are the user's, but a conversation itself is large. */
const CONVERSATIONS_PER_PAGE = 100;

/**
 * The rows of chat that are about a user. No table has an index on the user alone, which would make every send slower.
 */
export function chatPersonalDataStore(db: Db) {
  const { $client: client } = db;
  const read = <Row, Values extends SQLQueryBindings[]>(text: string) => reading<Row, Values>(client, text);
  const change = (text: string) => changing<SQLQueryBindings[]>(client, text);

  const conversationPage = read<ConversationRow, [string, string, string, number]>(
    `SELECT ${columnsOf(conversations)} FROM conversations
     WHERE project_id = ? AND environment = ? AND id > ? ORDER BY id LIMIT ?`,
  );

  /** Rows of a table that are found by conversation and user. */
  function inConversations<Row>(columns: string, table: string, isUsers: string) {
    // CROSS JOIN keeps the order: without it SQLite may start with a table and have to read all its rows.
    const rows = read<Row & InConversation, [string, string, string, string, string]>(
      `SELECT ${columns}, c.public_id AS conversationPublicId FROM conversations c
       CROSS JOIN ${table} x ON x.conversation_id = c.id AND (${isUsers})
       WHERE c.project_id = ?1 AND c.environment = ?2 AND c.id > ?4 AND c.id <= ?5`,
    );
    return ({ projectId, environment, userId }: User) =>
      tenantPages(db, "conversations", { projectId, environment }, (after, until) =>
        rows.all(projectId, environment, userId, after, until),
      );
  }

  const sent = read<MessageRow, [string, string, number, number]>(
    `SELECT ${columnsOf(messages)} FROM messages
     WHERE conversation_id = ? AND sender_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
  );
  const sentCount = read<{ count: number }, [string, string]>(
    "SELECT count(*) AS count FROM messages WHERE conversation_id = ? AND sender_id = ?",
  );
  const showing = read<MessageRow, [string, string, string, number]>(
    `SELECT ${columnsOf(messages)} FROM messages WHERE conversation_id = ?1 AND attachment IS NOT NULL
     AND instr(attachment, ?2) > 0 AND json_extract(attachment, '$.uploaderId') = ?3 ORDER BY seq LIMIT ?4`,
  );
  const deleted = read<{ one: number }, [string, string]>(
    "SELECT 1 AS one FROM messages WHERE conversation_id = ? AND deleted_at IS NOT NULL AND deleted_by = ? LIMIT 1",
  );
  const eventBound = read<{ seq: number | null }, [string, number, number]>(
    `SELECT max(seq) AS seq FROM
     (SELECT seq FROM conversation_events WHERE conversation_id = ? AND seq > ? ORDER BY seq LIMIT ?)`,
  );
  const events = read<{ seq: number; detail: string }, [string, number, number, string]>(
    `SELECT seq, detail FROM conversation_events
     WHERE conversation_id = ? AND seq > ? AND seq <= ? AND detail IS NOT NULL AND instr(detail, ?) > 0`,
  );
  const reactions = read<AddedReaction, [number, number, string, string, string]>(
    `SELECT r.emoji, r.created_at AS createdAt, m.public_id AS messageId, c.id AS conversationId
     FROM message_reactions r CROSS JOIN messages m ON m.id = r.message_id
       CROSS JOIN conversations c ON c.id = m.conversation_id
     WHERE r.id > ? AND r.id <= ? AND r.user_id = ? AND c.project_id = ? AND c.environment = ? ORDER BY r.id`,
  );
  const connections = read<ChatConnectionRow, [number, number, string, string, string]>(
    `SELECT ${columnsOf(chatConnections)} FROM chat_connections
     WHERE rowid > ? AND rowid <= ? AND user_id = ? AND +project_id = ? AND environment = ?`,
  );
  const firstMention = read<{ ordinal: number }, [string, string]>(
    "SELECT ordinal FROM message_mentions WHERE conversation_id = ? AND user_id = ? ORDER BY ordinal LIMIT 1",
  );
  // Messages have an index on `seq` and none on `ordinal`. The `seq` of a message is never below its ordinal, so the search
  // starts where `seq` equals the ordinal of the first mention.
  const mentioning = read<MessageRow, [string, string, number, number]>(
    `SELECT ${columnsOf(messages)} FROM messages WHERE conversation_id = ?1 AND seq >= ?3 AND seq < ?4
     AND mentions IS NOT NULL AND instr(mentions, ?2) > 0 ORDER BY seq`,
  );
  const lastSeq = read<{ seq: number | null }, [string]>(
    "SELECT max(seq) AS seq FROM messages WHERE conversation_id = ?",
  );
  const callNotes = read<MessageRow, [string, string]>(
    `SELECT ${columnsOf(messages)} FROM messages WHERE conversation_id = ? AND sender_id IS NULL AND type = 'event'
     AND deleted_at IS NULL AND instr(metadata, ?) > 0 ORDER BY seq LIMIT 200`,
  );
  const ringRows = read<UserRing, [string, string, string, string, string]>(
    `SELECT ${columnsOf(rings, "r")}, m.status AS answer FROM rings r
     LEFT JOIN ring_members m ON m.ring_id = r.id AND m.user_id = ?3
     WHERE r.project_id = ?1 AND r.environment = ?2 AND r.id > ?4 AND r.id <= ?5
       AND (r.caller_user_id = ?3 OR m.user_id IS NOT NULL)`,
  );
  const blocks = read<BlockRow, [string, string, string]>(
    `SELECT ${columnsOf(chatBlocks)} FROM chat_blocks
     WHERE project_id = ?1 AND environment = ?2 AND (user_id = ?3 OR blocked_user_id = ?3)`,
  );

  const removeReadState = change("DELETE FROM read_states WHERE conversation_id = ? AND user_id = ?");
  const removeAttachment = change("UPDATE messages SET attachment = NULL, updated_at = ?2 WHERE id = ?1");
  const anonymizeDeleter = change(
    `UPDATE messages SET deleted_by = '${ERASED}'
     WHERE conversation_id = ?1 AND deleted_at IS NOT NULL AND deleted_by = ?2`,
  );
  const rewriteEvent = change("UPDATE conversation_events SET detail = ?3 WHERE conversation_id = ?1 AND seq = ?2");
  const removeConnection = change("DELETE FROM chat_connections WHERE id = ?");
  // A token whose row is gone would be valid again after a restart: the row stays until it expires, without the user
  // id.
  const anonymizeTokens = change(
    `UPDATE chat_tokens SET user_id = '${ERASED}', revoked_at = ifnull(revoked_at, ?4)
     WHERE project_id = ?1 AND environment = ?2 AND user_id = ?3`,
  );
  const removeAddresses = change(
    `UPDATE chat_connections SET ip_address = '' WHERE id IN
     (SELECT id FROM chat_connections WHERE connected_at < ? AND ip_address <> '' LIMIT ?)`,
  );
  const removeMentions = change("DELETE FROM message_mentions WHERE conversation_id = ? AND user_id = ?");
  const removeRing = change("DELETE FROM rings WHERE id = ? AND caller_user_id = ?");
  const leaveRing = change("DELETE FROM ring_members WHERE ring_id = ? AND user_id = ?");
  const removeBlock = change(
    "DELETE FROM chat_blocks WHERE project_id = ? AND environment = ? AND user_id = ? AND blocked_user_id = ?",
  );
  const removeReport = change("DELETE FROM message_reports WHERE id = ?");
  const anonymizeReport = change("UPDATE message_reports SET sender_id = NULL WHERE id = ?");

  return {
    async *conversations({ projectId, environment }: Tenant): AsyncGenerator<ConversationRow> {
      const found = pages("", (after) => {
        const rows = conversationPage.all(projectId, environment, after, CONVERSATIONS_PER_PAGE);
        const last = rows.at(-1);
        return last ? { until: last.id, rows } : null;
      });
      for await (const rows of found) yield* rows;
    },

    members: inConversations<MemberRow>(columnsOf(conversationMembers, "x"), "conversation_members", "x.user_id = ?3"),
    readStates: inConversations<ReadStateRow>(columnsOf(readStates, "x"), "read_states", "x.user_id = ?3"),
    removeReadState: (unit: Unit, { conversationId, userId }: ReadStateRow) =>
      void removeReadState.run(unit, conversationId, userId),

    sent: (conversationId: string, userId: string, afterSeq: number, limit: number): MessageRow[] =>
      sent.all(conversationId, userId, afterSeq, limit),
    countSent: (conversationId: string, userId: string): number => sentCount.get(conversationId, userId)?.count ?? 0,
    /** Whether the user deleted messages, including messages of others. */
    hasDeleted: (conversationId: string, userId: string): boolean => deleted.get(conversationId, userId) !== null,
    anonymizeDeleter: (unit: Unit, conversationId: string, userId: string) =>
      void anonymizeDeleter.run(unit, conversationId, userId),

    uploaded: inConversations<AttachmentRow>(columnsOf(attachments, "x"), "attachments", "x.uploader_id = ?3"),
    /** Messages of any sender that show an attachment of the user. */
    showing: (conversationId: string, userId: string, limit: number): MessageRow[] =>
      showing.all(conversationId, JSON.stringify(userId), userId, limit),
    removeAttachment: (unit: Unit, messageId: number, at: number) => void removeAttachment.run(unit, messageId, at),

    events: (conversationId: string, userId: string) =>
      pages(0, (after) => {
        const until = eventBound.get(conversationId, after, ROWS_PER_PAGE)?.seq ?? null;
        if (until === null) return null;
        return { until, rows: events.all(conversationId, after, until, JSON.stringify(userId)) };
      }),
    rewriteEvent: (unit: Unit, conversationId: string, seq: number, detail: string) =>
      void rewriteEvent.run(unit, conversationId, seq, detail),

    reactions: ({ projectId, environment, userId }: User) =>
      rowPages(db, "message_reactions", (after, until) => reactions.all(after, until, userId, projectId, environment)),

    isMentioned: (conversationId: string, userId: string): boolean => firstMention.get(conversationId, userId) !== null,
    /** Messages of a conversation that mention the user. */
    mentioning: (conversationId: string, userId: string) =>
      pages(0, (after) => {
        const from = after > 0 ? after : firstMention.get(conversationId, userId)?.ordinal;
        if (from === undefined || from > (lastSeq.get(conversationId)?.seq ?? 0)) return null;
        const until = from + ROWS_PER_PAGE;
        const found = mentioning.all(conversationId, JSON.stringify(userId), from, until);
        return { until, rows: found.filter((row) => mentionsOf(row).includes(userId)) };
      }),
    removeMentions: (unit: Unit, conversationId: string, userId: string) =>
      void removeMentions.run(unit, conversationId, userId),
    /** Messages about calls that may name the user. */
    callNotes: (conversationId: string, userId: string): MessageRow[] =>
      callNotes.all(conversationId, JSON.stringify(userId)),

    rings: ({ projectId, environment, userId }: User) =>
      tenantPages(db, "rings", { projectId, environment }, (after, until) =>
        ringRows.all(projectId, environment, userId, after, until),
      ),
    removeFromRing(unit: Unit, ringId: string, userId: string): void {
      removeRing.run(unit, ringId, userId);
      leaveRing.run(unit, ringId, userId);
    },

    blocks: ({ projectId, environment, userId }: User): BlockRow[] => blocks.all(projectId, environment, userId),
    removeBlock: (unit: Unit, { projectId, environment, userId, blockedUserId }: BlockRow) =>
      void removeBlock.run(unit, projectId, environment, userId, blockedUserId),

    /** Reports that the user made, or that are about messages of the user. */
    reports: inConversations<ReportRow>(
      columnsOf(messageReports, "x"),
      "message_reports",
      "x.reporter_user_id = ?3 OR x.sender_id = ?3",
    ),
    removeReport(unit: Unit, { id, reporterUserId }: ReportRow, userId: string): void {
      if (reporterUserId === userId) removeReport.run(unit, id);
      else anonymizeReport.run(unit, id);
    },

    connections: ({ projectId, environment, userId }: User) =>
      rowPages(db, "chat_connections", (after, until) => connections.all(after, until, userId, projectId, environment)),
    removeAddresses: (unit: Unit, before: number, limit: number): number =>
      removeAddresses.run(unit, before, limit).changes,
    removeConnection: (unit: Unit, { id }: ChatConnectionRow) => void removeConnection.run(unit, id),
    anonymizeTokens: (unit: Unit, { projectId, environment, userId }: User, at: number) =>
      void anonymizeTokens.run(unit, projectId, environment, userId, at),
  };
}

export function mentionsOf({ mentions }: MessageRow): string[] {
  return JSON.parse(mentions ?? "[]") as string[];
}
