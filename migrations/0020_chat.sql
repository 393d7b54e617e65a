CREATE TABLE conversations (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'ACTIVE',
  room_id TEXT UNIQUE,
  retention_days INTEGER,
  metadata TEXT,
  slow_mode_seconds INTEGER NOT NULL DEFAULT 0,
  member_count INTEGER NOT NULL DEFAULT 0,
  -- The last number given to an event; events are 1, 2, 3, … without a gap.
  last_seq INTEGER NOT NULL DEFAULT 0,
  -- Events up to here were removed by retention: whoever missed one of them cannot be replayed to.
  log_start_seq INTEGER NOT NULL DEFAULT 0,
  -- The last number given to a message, and up to which retention removed them: unread counts are a subtraction.
  last_ordinal INTEGER NOT NULL DEFAULT 0,
  removed_ordinal INTEGER NOT NULL DEFAULT 0,
  -- Messages that stand: neither deleted nor removed by retention.
  message_count INTEGER NOT NULL DEFAULT 0,
  reaction_count INTEGER NOT NULL DEFAULT 0,
  -- The UTC day of the last message, and the last ordinal of the days before: messages of today are a subtraction.
  day INTEGER NOT NULL DEFAULT 0,
  day_start_ordinal INTEGER NOT NULL DEFAULT 0,
  last_message_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX conversations_by_name ON conversations (project_id, environment, name);
CREATE INDEX conversations_by_time ON conversations (project_id, environment, id);

CREATE TABLE conversation_members (
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  user_id TEXT NOT NULL,
  role TEXT NOT NULL DEFAULT 'MEMBER',
  status TEXT NOT NULL DEFAULT 'ACTIVE',
  muted_until INTEGER,
  metadata TEXT,
  joined_at INTEGER NOT NULL,
  left_at INTEGER,
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;
-- User ids are the developer's own: two projects may use the same one, so the project is checked beside it.
CREATE INDEX conversation_members_by_user ON conversation_members (user_id, conversation_id) WHERE status = 'ACTIVE';
CREATE INDEX conversation_members_by_time ON conversation_members (conversation_id, joined_at, user_id)
  WHERE status = 'ACTIVE';

CREATE TABLE messages (
  id INTEGER PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  seq INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  sender_id TEXT,
  type TEXT NOT NULL,
  text TEXT,
  reply_to TEXT,
  thread_root_id TEXT,
  reply_count INTEGER NOT NULL DEFAULT 0,
  client_message_id TEXT,
  -- The attachment's record as it was sent, so that a page of history needs no join.
  attachment TEXT,
  metadata TEXT,
  reaction_count INTEGER NOT NULL DEFAULT 0,
  pinned_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  edited_at INTEGER,
  deleted_at INTEGER,
  deleted_by TEXT
) STRICT;
CREATE UNIQUE INDEX messages_by_seq ON messages (conversation_id, seq);
CREATE INDEX messages_by_sender ON messages (conversation_id, sender_id, seq);
CREATE INDEX messages_by_thread ON messages (thread_root_id, seq) WHERE thread_root_id IS NOT NULL;
CREATE UNIQUE INDEX messages_by_client_id ON messages (conversation_id, ifnull(sender_id, ''), client_message_id)
  WHERE client_message_id IS NOT NULL;
CREATE INDEX messages_deleted ON messages (conversation_id, ordinal) WHERE deleted_at IS NOT NULL;
CREATE INDEX messages_pinned ON messages (conversation_id, pinned_at) WHERE pinned_at IS NOT NULL;

CREATE TABLE message_reactions (
  -- In the order in which they were given.
  id INTEGER PRIMARY KEY,
  message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
  emoji TEXT NOT NULL,
  user_id TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX message_reactions_once ON message_reactions (message_id, emoji, user_id);

-- What happened, in order. Holds no message text: a replay reads the message as it is now, so that what was deleted
-- or edited away does not live on in the log.
CREATE TABLE conversation_events (
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  at INTEGER NOT NULL,
  message_id TEXT,
  detail TEXT,
  PRIMARY KEY (conversation_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE read_states (
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  user_id TEXT NOT NULL,
  last_read_message_id TEXT NOT NULL,
  last_read_seq INTEGER NOT NULL,
  last_read_ordinal INTEGER NOT NULL,
  last_read_at INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE chat_tokens (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  user_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_tokens_by_expiry ON chat_tokens (expires_at);

-- Sessions on the chat socket, for the dashboard.
CREATE TABLE chat_connections (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  user_id TEXT NOT NULL,
  conversations TEXT NOT NULL DEFAULT '[]',
  messages_sent INTEGER NOT NULL DEFAULT 0,
  user_agent TEXT,
  ip_address TEXT NOT NULL,
  connected_at INTEGER NOT NULL,
  disconnected_at INTEGER,
  close_code INTEGER
) STRICT;
CREATE INDEX chat_connections_by_project ON chat_connections (project_id, environment, id);
