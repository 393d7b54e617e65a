import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading, updater } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS } from "../../../kernel/time/clock.ts";
import { UUID_PATTERN } from "../../../protocol/ids.ts";
import { type ConversationRow, conversations } from "./conversation.table.ts";

const NO_TOTALS = { conversations: 0, activeConversations: 0, messages: 0, messagesToday: 0, members: 0, reactions: 0 };
const UUID = new RegExp(UUID_PATTERN, "i");

export function conversationStore({ $client: client }: Db) {
  const columns = columnsOf(conversations);
  const one = (where: string) =>
    reading<ConversationRow, string[]>(client, `SELECT ${columns} FROM conversations WHERE ${where}`);
  const byId = one("id = ?");
  const byPublicId = one("public_id = ? AND project_id = ? AND environment = ?");
  const byUuid = one("id = ? AND project_id = ? AND environment = ?");
  const byRoom = one("room_id = ? AND project_id = ? AND environment = ?");
  const byName = one("name = ? AND project_id = ? AND environment = ?");
  // For a plain `status`, SQLite reads all rooms of the tenant in that order instead of those with this name.
  const byRoomName = one(
    `room_id = (SELECT id FROM rooms
       WHERE name = ?1 AND project_id = ?2 AND environment = ?3 ORDER BY +status, id DESC LIMIT 1)`,
  );
  const list = reading<ConversationRow, (string | number | null)[]>(
    client,
    `SELECT ${columns} FROM conversations
     WHERE project_id = ?1 AND environment = ?2 AND id < ?3 AND (?4 IS NULL OR status = ?4)
     ORDER BY id DESC LIMIT ?5`,
  );
  const listOfUser = reading<ConversationRow, (string | number | null)[]>(
    client,
    `SELECT ${columnsOf(conversations, "c")} FROM conversation_members m JOIN conversations c ON c.id = m.conversation_id
     WHERE m.user_id = ?1 AND m.status = 'ACTIVE' AND m.conversation_id < ?4
       AND c.project_id = ?2 AND c.environment = ?3 AND (?5 IS NULL OR c.status = ?5)
       AND (?6 IS NULL OR c.id IN (SELECT value FROM json_each(?6)))
     ORDER BY m.conversation_id DESC LIMIT ?7`,
  );
  const countMembers = changing(client, "UPDATE conversations SET member_count = member_count + ?2 WHERE id = ?1");
  // An update and, where needed, a read cost half as much as RETURNING; they run for every event.
  const countEvent = changing(client, "UPDATE conversations SET last_seq = last_seq + 1 WHERE id = ?");
  const countMessage = changing(
    client,
    `UPDATE conversations SET last_seq = last_seq + 1, last_ordinal = last_ordinal + 1,
       message_count = message_count + 1, last_message_at = ?2,
       day_start_ordinal = iif(day = ?3, day_start_ordinal, last_ordinal), day = ?3
     WHERE id = ?1 AND last_seq = ?4`,
  );
  const counted = reading<{ seq: number; ordinal: number }, [string]>(
    client,
    "SELECT last_seq AS seq, last_ordinal AS ordinal FROM conversations WHERE id = ?",
  );
  const uncountMessage = changing(
    client,
    "UPDATE conversations SET message_count = message_count - 1, reaction_count = reaction_count - ?2 WHERE id = ?1",
  );
  const countReactions = changing(
    client,
    "UPDATE conversations SET reaction_count = reaction_count + ?2 WHERE id = ?1",
  );

  const totals = reading<ChatTotals, [string, string, number]>(
    client,
    `SELECT count(*) AS conversations, count(*) FILTER (WHERE status = 'ACTIVE') AS activeConversations,
       ifnull(sum(message_count), 0) AS messages,
       ifnull(sum(last_ordinal - day_start_ordinal) FILTER (WHERE day = ?3), 0) AS messagesToday,
       ifnull(sum(member_count), 0) AS members, ifnull(sum(reaction_count), 0) AS reactions
       FROM conversations WHERE project_id = ?1 AND environment = ?2`,
  );
  const attachmentTotals = reading<{ attachments: number; attachmentBytes: number }, [string, string]>(
    client,
    `SELECT count(*) AS attachments, ifnull(sum(a.size), 0) AS attachmentBytes
       FROM conversations c JOIN attachments a ON a.conversation_id = c.id
       WHERE c.project_id = ? AND c.environment = ? AND a.status = 'UPLOADED'`,
  );

  function lastNumbers(id: string): { seq: number; ordinal: number } {
    const row = counted.get(id);
    if (!row) throw new Error("the conversation does not exist");
    return row;
  }

  return {
    find: (id: string): ConversationRow | null => byId.get(id),

    /**
     * Finds a conversation by conv_ id, uuid, name, or the id or name of its RTC room. A conversation's name never looks like an
     * id.
     */
    resolve({ projectId, environment }: Tenant, reference: string): ConversationRow | null {
      if (reference.startsWith("conv_")) return byPublicId.get(reference, projectId, environment);
      if (!UUID.test(reference)) {
        return byName.get(reference, projectId, environment) ?? byRoomName.get(reference, projectId, environment);
      }
      const uuid = reference.toLowerCase();
      return byUuid.get(uuid, projectId, environment) ?? byRoom.get(uuid, projectId, environment);
    },

    findByName: ({ projectId, environment }: Tenant, name: string): ConversationRow | null =>
      byName.get(name, projectId, environment),

    insert: inserter<ConversationRow>(client, conversations),

    list: ({ projectId, environment }: Tenant, { before, status = null, limit }: Page): ConversationRow[] =>
      list.all(projectId, environment, before, status, limit),

    /** `within` contains the conversations to which the token is limited. */
    listOfUser: (
      { projectId, environment }: Tenant,
      userId: string,
      within: string[] | null,
      { before, status = null, limit }: Page,
    ): ConversationRow[] =>
      listOfUser.all(userId, projectId, environment, before, status, within && JSON.stringify(within), limit),

    update: updater(client, conversations),

    /** Totals for the dashboard, summed from the counters in the conversation rows. */
    totals: ({ projectId, environment }: Tenant, at: number): ChatTotals =>
      totals.get(projectId, environment, Math.floor(at / DAY_MS)) ?? NO_TOTALS,
    attachmentTotals: ({ projectId, environment }: Tenant) =>
      attachmentTotals.get(projectId, environment) ?? { attachments: 0, attachmentBytes: 0 },

    countMembers: (unit: Unit, id: string, difference: number) => void countMembers.run(unit, id, difference),
    nextSeq(unit: Unit, id: string): number {
      countEvent.run(unit, id);
      return lastNumbers(id).seq;
    },
    /** The next `seq` and ordinal, for a new message. */
    nextMessage(
      unit: Unit,
      { id, lastSeq, lastOrdinal }: Pick<ConversationRow, "id" | "lastSeq" | "lastOrdinal">,
      at: number,
    ): { seq: number; ordinal: number } {
      const day = Math.floor(at / DAY_MS);
      if (countMessage.run(unit, id, at, day, lastSeq).changes > 0)
        return { seq: lastSeq + 1, ordinal: lastOrdinal + 1 };
      // The row that the caller passed is outdated.
      countMessage.run(unit, id, at, day, lastNumbers(id).seq);
      return lastNumbers(id);
    },
    uncountMessage: (unit: Unit, id: string, reactions: number) => void uncountMessage.run(unit, id, reactions),
    countReactions: (unit: Unit, id: string, difference: number) => void countReactions.run(unit, id, difference),
  };
}

type ChatTotals = typeof NO_TOTALS;
type Page = { before: string; status?: string | null; limit: number };
export type ConversationStore = ReturnType<typeof conversationStore>;
