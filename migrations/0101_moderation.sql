-- Whom a user does not want to hear from.
CREATE TABLE chat_blocks (
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  user_id TEXT NOT NULL,
  blocked_user_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (project_id, environment, user_id, blocked_user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_blocks_by_blocked ON chat_blocks (project_id, environment, blocked_user_id);

-- What users reported. Holds no text: a moderator reads the message as it is now.
CREATE TABLE message_reports (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  -- The public id: the report outlives a message that retention removes.
  message_id TEXT NOT NULL,
  sender_id TEXT,
  reporter_user_id TEXT NOT NULL,
  reason TEXT NOT NULL,
  note_text TEXT,
  status TEXT NOT NULL,
  -- What was done about it.
  action TEXT,
  created_at INTEGER NOT NULL,
  resolved_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX message_reports_once ON message_reports (message_id, reporter_user_id);
CREATE INDEX message_reports_queue ON message_reports (project_id, environment, status, id);
CREATE INDEX message_reports_by_conversation ON message_reports (conversation_id);
CREATE INDEX message_reports_by_age ON message_reports (resolved_at) WHERE resolved_at IS NOT NULL;

-- Words that a project does not want, as JSON: one row per project and environment.
CREATE TABLE chat_word_lists (
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  words TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (project_id, environment)
) STRICT, WITHOUT ROWID;
