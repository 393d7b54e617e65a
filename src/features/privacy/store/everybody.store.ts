import type { Db } from "../../../kernel/db/open.ts";
import type { Tenant } from "../../../kernel/tenant.ts";

/** Every column that names a person, with the tenant it belongs to. */
const NAMES = [
  "SELECT sender_id AS name FROM messages x JOIN conversations t ON t.id = x.conversation_id",
  "SELECT user_id AS name FROM conversation_members x JOIN conversations t ON t.id = x.conversation_id",
  "SELECT user_id AS name FROM read_states x JOIN conversations t ON t.id = x.conversation_id",
  "SELECT uploader_id AS name FROM attachments x JOIN conversations t ON t.id = x.conversation_id",
  `SELECT r.user_id AS name FROM message_reactions r JOIN messages x ON x.id = r.message_id
     JOIN conversations t ON t.id = x.conversation_id`,
  "SELECT user_id AS name FROM message_mentions x JOIN conversations t ON t.id = x.conversation_id",
  "SELECT caller_user_id AS name FROM rings t",
  "SELECT user_id AS name FROM ring_members x JOIN rings t ON t.id = x.ring_id",
  "SELECT user_id AS name FROM chat_blocks t",
  "SELECT blocked_user_id AS name FROM chat_blocks t",
  "SELECT sender_id AS name FROM message_reports t",
  "SELECT reporter_user_id AS name FROM message_reports t",
  "SELECT user_id AS name FROM push_subscriptions t",
  "SELECT user_id AS name FROM notification_settings x JOIN conversations t ON t.id = x.conversation_id",
  "SELECT user_id AS name FROM chat_connections t",
  "SELECT user_id AS name FROM chat_tokens t",
  "SELECT participant_identity AS name FROM rtc_connections t",
  "SELECT participant_identity AS name FROM usage_sessions t",
  "SELECT participant_identity AS name FROM rtc_tokens x JOIN rooms t ON t.id = x.room_id",
  "SELECT participant_identity AS name FROM participant_permissions x JOIN rooms t ON t.id = x.room_id",
  "SELECT identity AS name FROM call_participants x JOIN calls t ON t.id = x.call_id",
  "SELECT identity AS name FROM live_stream_hosts x JOIN live_streams t ON t.id = x.stream_id",
  "SELECT identity AS name FROM live_stream_viewers x JOIN live_streams t ON t.id = x.stream_id",
  "SELECT host_identity AS name FROM live_streams t",
  "SELECT identity AS name FROM recording_files x JOIN recordings t ON t.id = x.recording_id",
  "SELECT identity AS name FROM recording_events x JOIN recordings t ON t.id = x.recording_id",
];

/** Everybody that a database knows. For restored data, before a server uses it. */
export function everybodyStore({ $client: client }: Db) {
  return {
    names: ({ projectId, environment }: Tenant): string[] =>
      client
        .query<{ name: string }, [string, string]>(
          NAMES.map((text) => `${text} WHERE t.project_id = ?1 AND t.environment = ?2 AND name IS NOT NULL`).join(
            " UNION ",
          ),
        )
        .all(projectId, environment)
        .map(({ name }) => name),
  };
}
