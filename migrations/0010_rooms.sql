CREATE TABLE rooms (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  name TEXT NOT NULL,
  region TEXT,
  status TEXT NOT NULL DEFAULT 'ACTIVE',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  closed_at INTEGER
) STRICT;
-- A closed room frees its name.
CREATE UNIQUE INDEX rooms_active_name ON rooms (project_id, environment, name) WHERE status = 'ACTIVE';
CREATE INDEX rooms_by_project ON rooms (project_id, environment, status, id);

-- A token itself is never kept: the row says that it was minted, until when it counts, and whether it was revoked.
CREATE TABLE rtc_tokens (
  id TEXT PRIMARY KEY,
  room_id TEXT NOT NULL REFERENCES rooms (id),
  participant_identity TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER,
  -- JSON; set when they were changed after minting, and then they outweigh those in the token.
  permissions TEXT
) STRICT;
CREATE INDEX rtc_tokens_by_identity ON rtc_tokens (room_id, participant_identity);
CREATE INDEX rtc_tokens_by_expiry ON rtc_tokens (expires_at);
