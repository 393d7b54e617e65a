-- One row per media session: from the first packet to the end. `ended_at` is null while it runs.
CREATE TABLE usage_sessions (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  room_id TEXT NOT NULL,
  room_name TEXT NOT NULL,
  participant_identity TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;
CREATE INDEX usage_sessions_by_project ON usage_sessions (project_id, started_at, id);
CREATE INDEX usage_sessions_open ON usage_sessions (project_id) WHERE ended_at IS NULL;

-- Started minutes of ended sessions, by the UTC day in which each minute started.
CREATE TABLE usage_days (
  project_id TEXT NOT NULL REFERENCES projects (id),
  date TEXT NOT NULL,
  minutes INTEGER NOT NULL,
  sessions INTEGER NOT NULL,
  PRIMARY KEY (project_id, date)
) STRICT, WITHOUT ROWID;
