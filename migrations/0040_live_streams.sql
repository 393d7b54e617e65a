CREATE TABLE live_streams (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  room_id TEXT NOT NULL UNIQUE REFERENCES rooms (id),
  conversation_id TEXT NOT NULL UNIQUE REFERENCES conversations (id),
  conversation_public_id TEXT NOT NULL,
  host_identity TEXT NOT NULL,
  title TEXT NOT NULL,
  description TEXT,
  thumbnail_url TEXT,
  category TEXT,
  tags TEXT NOT NULL DEFAULT '[]',
  language TEXT,
  visibility TEXT NOT NULL DEFAULT 'PUBLIC',
  metadata TEXT,
  status TEXT NOT NULL DEFAULT 'CREATED',
  peak_viewer_count INTEGER NOT NULL DEFAULT 0,
  scheduled_at INTEGER,
  started_at INTEGER,
  ended_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX live_streams_by_project ON live_streams (project_id, environment, id);

CREATE TABLE live_stream_hosts (
  stream_id TEXT NOT NULL REFERENCES live_streams (id),
  identity TEXT NOT NULL,
  role TEXT NOT NULL,
  -- The chat tokens minted for this host, which end with its registration: [{ tokenId, expiresAt }].
  chat_tokens TEXT NOT NULL DEFAULT '[]',
  added_at INTEGER NOT NULL,
  removed_at INTEGER,
  PRIMARY KEY (stream_id, identity)
) STRICT, WITHOUT ROWID;

-- Who was told of as a viewer, so that a refreshed token is no second viewer.
CREATE TABLE live_stream_viewers (
  stream_id TEXT NOT NULL REFERENCES live_streams (id),
  identity TEXT NOT NULL,
  joined_at INTEGER NOT NULL,
  left_at INTEGER,
  PRIMARY KEY (stream_id, identity)
) STRICT, WITHOUT ROWID;
