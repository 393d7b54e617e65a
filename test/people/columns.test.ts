import { afterAll, expect, test } from "bun:test";
import { migrate, readMigrations } from "../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../src/kernel/db/open.ts";

const db = openDatabase(":memory:");
migrate(db, readMigrations(`${import.meta.dir}/../../migrations`), 0);
afterAll(() => closeDatabase(db));

/** Columns that hold, or may hold, somebody who uses an application. Erasing a person reaches every one of them. */
const ERASED = [
  "attachments.uploader_id",
  "attachments.filename",
  "call_participants.identity",
  "chat_blocks.blocked_user_id",
  "chat_blocks.user_id",
  "chat_connections.ip_address",
  "chat_connections.user_agent",
  "chat_connections.user_id",
  "chat_tokens.user_id",
  "conversation_events.detail",
  "conversation_members.metadata",
  "conversation_members.user_id",
  "idempotency_keys.body",
  "live_stream_hosts.identity",
  "live_stream_viewers.identity",
  "live_streams.host_identity",
  "message_mentions.user_id",
  "message_reactions.user_id",
  "message_reports.note_text",
  "message_reports.reporter_user_id",
  "message_reports.sender_id",
  "messages.mentions",
  "messages.metadata",
  "messages.sender_id",
  "messages.text",
  "notification_settings.user_id",
  "participant_permissions.participant_identity",
  "person_erasures.user_id",
  "person_exports.user_id",
  "push_subscriptions.user_id",
  "read_states.user_id",
  "recording_events.data",
  "recording_events.identity",
  "recording_files.identity",
  "ring_members.user_id",
  "rings.caller_user_id",
  "rtc_connection_events.data",
  "rtc_connections.ip_address",
  "rtc_connections.participant_identity",
  "rtc_connections.user_agent",
  "rtc_errors.message",
  "rtc_tokens.participant_identity",
  "storage_usage.user_id",
  "usage_sessions.participant_identity",
  "webhook_events.body",
];

/** Columns that only sound like it, and why nothing of such a person is in them. */
const NOT_THEIRS: Record<string, string> = {
  "attachments.metadata": "goes with its row",
  "audit_entries.actor_email": "an account of the dashboard",
  "audit_entries.ip_address": "of whoever administers the project",
  "audit_entries.metadata": "names what changed, never who uses the application",
  "audit_entries.user_agent": "of whoever administers the project",
  "conversations.metadata": "the developer's",
  "idempotency_keys.body_hash": "a digest",
  "invitations.email": "an account of the dashboard",
  "live_streams.metadata": "the developer's",
  "message_search.text": "the index keeps no text; what it kept of a word is merged away",
  "messages.thread_root_id": "the id of a message",
  "oauth_identities.user_id": "an account of the dashboard",
  "one_time_tokens.user_id": "an account of the dashboard",
  "project_members.user_id": "an account of the dashboard",
  "rings.metadata": "goes with its row",
  "sessions.ip_address": "of a session of the dashboard",
  "sessions.user_agent": "of a session of the dashboard",
  "sessions.user_id": "an account of the dashboard",
  "users.email": "an account of the dashboard",
  "users.email_verified": "an account of the dashboard",
};

const SOUNDS_PERSONAL =
  /user|sender|identity|address|text|email|uploader|mention|body|detail|metadata|^data$|^message$|filename/;

test("[19] every column that sounds like a person is either erased, or told why it is not", () => {
  const columns = db.$client
    .query<{ table: string; name: string }, []>(
      `SELECT t.name AS "table", c.name AS name FROM pragma_table_list t JOIN pragma_table_info(t.name) c
       WHERE t.schema = 'main' AND t.type IN ('table', 'virtual') AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE 'message_search_%'`,
    )
    .all()
    .map(({ table, name }) => ({ column: `${table}.${name}`, name }));
  const known = new Set([...ERASED, ...Object.keys(NOT_THEIRS)]);
  const unknown = columns.filter(({ column, name }) => SOUNDS_PERSONAL.test(name) && !known.has(column));
  expect(unknown.map(({ column }) => column)).toEqual([]);
  // And the lists name nothing that is not there.
  const there = new Set(columns.map(({ column }) => column));
  expect([...known].filter((column) => !there.has(column))).toEqual([]);
});
