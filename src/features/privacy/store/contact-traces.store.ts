import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type RingMemberRow, type RingRow, rings } from "../../chat/calls/ring.table.ts";
import { type BlockRow, chatBlocks, messageReports, type ReportRow } from "../../chat/moderation/moderation.table.ts";
import { type MessageRow, messages } from "../../chat/store/message.table.ts";
import {
  notificationSettings,
  pushSubscriptions,
  type SettingRow,
  type SubscriptionRow,
} from "../../push/push.table.ts";
import type { Person } from "../person.ts";

export type OwnRing = RingRow & { member: RingMemberRow["status"] | null };

export type ContactTraces = ReturnType<typeof contactTraces>;

/** Where a person stands in what others did: mentioned, called, rung, blocked, reported. */
export function contactTraces({ $client: client }: Db) {
  const firstMention = reading(() =>
    client.prepare<{ ordinal: number }, [string, string]>(
      `SELECT ordinal FROM message_mentions WHERE conversation_id = ? AND user_id = ? ORDER BY ordinal LIMIT 1`,
    ),
  );
  // Messages have no index by their ordinal, which is never above their number.
  const mentioning = reading(() =>
    client.prepare<MessageRow, [string, string, number, number]>(
      `SELECT ${columnsOf(messages)} FROM messages WHERE conversation_id = ?1 AND seq >= ?3 AND seq < ?4
       AND mentions IS NOT NULL AND instr(mentions, ?2) > 0 ORDER BY seq`,
    ),
  );
  const lastSeq = reading(() =>
    client.prepare<{ seq: number | null }, [string]>("SELECT max(seq) AS seq FROM messages WHERE conversation_id = ?"),
  );
  const forgetMentions = changing(() =>
    client.prepare("DELETE FROM message_mentions WHERE conversation_id = ? AND user_id = ?"),
  );
  // Messages of the server itself stand together in the index by sender.
  const callNotes = reading(() =>
    client.prepare<MessageRow, [string, string]>(
      `SELECT ${columnsOf(messages)} FROM messages WHERE conversation_id = ? AND sender_id IS NULL AND type = 'event'
       AND deleted_at IS NULL AND instr(metadata, ?) > 0 ORDER BY seq LIMIT 200`,
    ),
  );
  const ringBound = reading(() =>
    client.prepare<{ id: string | null }, [string, string, string, number]>(
      `SELECT max(id) AS id FROM (SELECT id FROM rings
       WHERE project_id = ? AND environment = ? AND id > ? ORDER BY id LIMIT ?)`,
    ),
  );
  const ownRings = reading(() =>
    client.prepare<OwnRing, [string, string, string, string, string]>(
      `SELECT ${columnsOf(rings, "r")}, m.status AS member FROM rings r
       LEFT JOIN ring_members m ON m.ring_id = r.id AND m.user_id = ?3
       WHERE r.project_id = ?1 AND r.environment = ?2 AND r.id > ?4 AND r.id <= ?5
         AND (r.caller_user_id = ?3 OR m.user_id IS NOT NULL)`,
    ),
  );
  const removeRing = changing(() => client.prepare("DELETE FROM rings WHERE id = ? AND caller_user_id = ?"));
  const leaveRing = changing(() => client.prepare("DELETE FROM ring_members WHERE ring_id = ? AND user_id = ?"));
  const blocks = reading(() =>
    client.prepare<BlockRow, [string, string, string]>(
      `SELECT ${columnsOf(chatBlocks)} FROM chat_blocks
       WHERE project_id = ?1 AND environment = ?2 AND (user_id = ?3 OR blocked_user_id = ?3)`,
    ),
  );
  const removeBlock = changing(() =>
    client.prepare(
      "DELETE FROM chat_blocks WHERE project_id = ? AND environment = ? AND user_id = ? AND blocked_user_id = ?",
    ),
  );
  const reports = reading(() =>
    client.prepare<ReportRow, [string, string]>(
      `SELECT ${columnsOf(messageReports)} FROM message_reports
       WHERE conversation_id = ?1 AND (reporter_user_id = ?2 OR sender_id = ?2) LIMIT 1000`,
    ),
  );
  const subscriptions = reading(() =>
    client.prepare<SubscriptionRow, [string, string, string]>(
      `SELECT ${columnsOf(pushSubscriptions)} FROM push_subscriptions
       WHERE project_id = ? AND environment = ? AND user_id = ?`,
    ),
  );
  const unsubscribe = changing(() => client.prepare("DELETE FROM push_subscriptions WHERE id = ?"));
  const setting = reading(() =>
    client.prepare<SettingRow, [string, string]>(
      `SELECT ${columnsOf(notificationSettings)} FROM notification_settings WHERE conversation_id = ? AND user_id = ?`,
    ),
  );
  const forgetSetting = changing(() =>
    client.prepare("DELETE FROM notification_settings WHERE conversation_id = ? AND user_id = ?"),
  );
  const removeReport = changing(() => client.prepare("DELETE FROM message_reports WHERE id = ?"));
  const forgetSender = changing(() => client.prepare("UPDATE message_reports SET sender_id = NULL WHERE id = ?"));

  return {
    /** The next stretch of messages that may mention them: up to where, and those that do. Null at the end. */
    mentioning(conversationId: string, userId: string, from: number, limit: number) {
      const first = from > 0 ? from : firstMention.get(conversationId, userId)?.ordinal;
      if (first === undefined || first > (lastSeq.get(conversationId)?.seq ?? 0)) return null;
      const until = first + limit;
      const found = mentioning.all(conversationId, JSON.stringify(userId), first, until);
      return { until, found: found.filter((row) => (JSON.parse(row.mentions ?? "[]") as string[]).includes(userId)) };
    },
    forgetMentions: (unit: Unit, conversationId: string, userId: string) =>
      void forgetMentions.run(unit, conversationId, userId),
    /** Messages about calls that name them. */
    callNotes: (conversationId: string, userId: string): MessageRow[] =>
      callNotes.all(conversationId, JSON.stringify(userId)),

    /** The next stretch of a project's rings: up to which one, and those in it that they took part in. */
    rings({ projectId, environment, userId }: Person, after: string, limit: number) {
      const until = ringBound.get(projectId, environment, after, limit)?.id ?? null;
      return until === null ? null : { until, own: ownRings.all(projectId, environment, userId, after, until) };
    },
    removeFromRing(unit: Unit, ringId: string, userId: string): void {
      removeRing.run(unit, ringId, userId);
      leaveRing.run(unit, ringId, userId);
    },

    blocks: ({ projectId, environment, userId }: Person): BlockRow[] => blocks.all(projectId, environment, userId),
    removeBlock: (unit: Unit, { projectId, environment, userId, blockedUserId }: BlockRow) =>
      void removeBlock.run(unit, projectId, environment, userId, blockedUserId),

    /** Browsers that are woken for them. */
    subscriptions: ({ projectId, environment, userId }: Person): SubscriptionRow[] =>
      subscriptions.all(projectId, environment, userId),
    unsubscribe: (unit: Unit, { id }: SubscriptionRow) => void unsubscribe.run(unit, id),
    setting: (conversationId: string, userId: string): SettingRow | null => setting.get(conversationId, userId),
    forgetSetting: (unit: Unit, conversationId: string, userId: string) =>
      void forgetSetting.run(unit, conversationId, userId),

    /** Made by them, or about what they said. */
    reports: (conversationId: string, userId: string): ReportRow[] => reports.all(conversationId, userId),
    removeReport(unit: Unit, { id, reporterUserId }: ReportRow, userId: string): void {
      if (reporterUserId === userId) removeReport.run(unit, id);
      else forgetSender.run(unit, id);
    },
  };
}
