-- The user ids that a message mentions, as JSON; null for most.
ALTER TABLE messages ADD COLUMN mentions TEXT;

-- Who is mentioned where, for counting what is unread of it. Gone with the message.
CREATE TABLE message_mentions (
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  user_id TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  PRIMARY KEY (conversation_id, user_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_mentions_by_message ON message_mentions (conversation_id, ordinal);

-- Somebody asks others into the call of a room.
CREATE TABLE rings (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  room_id TEXT NOT NULL,
  -- Null: the server itself.
  caller_user_id TEXT,
  status TEXT NOT NULL,
  metadata TEXT,
  started_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX rings_open ON rings (room_id) WHERE ended_at IS NULL;
CREATE INDEX rings_by_age ON rings (started_at);
CREATE INDEX rings_by_project ON rings (project_id, environment, id);

CREATE TABLE ring_members (
  ring_id TEXT NOT NULL REFERENCES rings (id) ON DELETE CASCADE,
  user_id TEXT NOT NULL,
  status TEXT NOT NULL,
  at INTEGER,
  PRIMARY KEY (ring_id, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ring_members_ringing ON ring_members (user_id, ring_id) WHERE status = 'RINGING';
