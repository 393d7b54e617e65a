-- The inputs that LiveKit's Ingress API makes. Stream keys are derived from their ids and not stored.
CREATE TABLE ingresses (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  -- The public id of the API key in whose name the participant joins.
  api_key_id TEXT NOT NULL,
  input TEXT NOT NULL,
  url TEXT NOT NULL,
  settings TEXT NOT NULL,
  status TEXT NOT NULL,
  error TEXT NOT NULL,
  room_id TEXT,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  updated_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX ingresses_newest ON ingresses (project_id, environment, created_at);
