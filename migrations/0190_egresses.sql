-- Live compositions of rooms, and where they were sent. Stream keys are left out, and credentials of buckets are never stored.
CREATE TABLE egresses (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  room_id TEXT NOT NULL,
  room_name TEXT NOT NULL,
  status TEXT NOT NULL,
  error TEXT,
  -- The request in the form of the gateway that took it.
  request TEXT NOT NULL,
  outputs TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX egresses_newest ON egresses (project_id, environment, started_at);
CREATE INDEX egresses_running ON egresses (started_at) WHERE ended_at IS NULL;
CREATE INDEX egresses_by_age ON egresses (ended_at);
