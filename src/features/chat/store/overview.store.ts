import type { Db } from "../../../kernel/db/open.ts";
import { reading } from "../../../kernel/db/statements.ts";
import type { Tenant } from "../../../kernel/tenant.ts";

const NOTHING = { conversations: 0, activeConversations: 0, messages: 0, messagesToday: 0, members: 0, reactions: 0 };
export type Overview = typeof NOTHING;

const DAY_MS = 24 * 3_600_000;

/** Counters of the dashboard, all kept up to date on the conversations themselves; never content. */
export function overviewStore({ $client: client }: Db) {
  const totals = reading(() =>
    client.prepare<Overview, [string, string, number]>(
      `SELECT count(*) AS conversations, count(*) FILTER (WHERE status = 'ACTIVE') AS activeConversations,
       ifnull(sum(message_count), 0) AS messages,
       ifnull(sum(last_ordinal - day_start_ordinal) FILTER (WHERE day = ?3), 0) AS messagesToday,
       ifnull(sum(member_count), 0) AS members, ifnull(sum(reaction_count), 0) AS reactions
     FROM conversations WHERE project_id = ?1 AND environment = ?2`,
    ),
  );
  const stored = reading(() =>
    client.prepare<{ attachments: number; attachmentBytes: number }, [string, string]>(
      `SELECT count(*) AS attachments, ifnull(sum(a.size), 0) AS attachmentBytes
     FROM conversations c JOIN attachments a ON a.conversation_id = c.id
     WHERE c.project_id = ? AND c.environment = ? AND a.status = 'UPLOADED'`,
    ),
  );
  return {
    stored: ({ projectId, environment }: Tenant) =>
      stored.get(projectId, environment) ?? { attachments: 0, attachmentBytes: 0 },
    totals: ({ projectId, environment }: Tenant, at: number): Overview =>
      totals.get(projectId, environment, Math.floor(at / DAY_MS)) ?? NOTHING,
  };
}
