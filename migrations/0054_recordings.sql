-- Whether every call of the room is recorded, and whether it is being recorded now.
ALTER TABLE rooms ADD COLUMN record INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rooms ADD COLUMN recording INTEGER NOT NULL DEFAULT 0;

CREATE TABLE recordings (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  room_id TEXT NOT NULL REFERENCES rooms (id),
  room_name TEXT NOT NULL,
  call_id TEXT,
  name TEXT,
  audio_only INTEGER NOT NULL,
  -- Made because the room records every call: it ends with the call.
  automatic INTEGER NOT NULL,
  status TEXT NOT NULL,
  error TEXT,
  started_at INTEGER NOT NULL,
  -- The last moment it was known to be written: where a crash ends it.
  last_seen_at INTEGER NOT NULL,
  ended_at INTEGER,
  composition TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX recordings_newest ON recordings (project_id, environment, started_at, id);
CREATE INDEX recordings_of_room ON recordings (room_id, started_at);
CREATE INDEX recordings_running ON recordings (room_id) WHERE status = 'RECORDING';
CREATE INDEX recordings_by_age ON recordings (started_at);

CREATE TABLE recording_files (
  recording_id TEXT NOT NULL REFERENCES recordings (id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  file_name TEXT NOT NULL,
  identity TEXT NOT NULL,
  track_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  source TEXT NOT NULL,
  codec TEXT NOT NULL,
  mime_type TEXT NOT NULL,
  offset_ms INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  width INTEGER,
  height INTEGER,
  PRIMARY KEY (recording_id, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX recording_files_by_id ON recording_files (id);
CREATE INDEX recording_files_by_identity ON recording_files (identity);

-- What happened while it ran: joins, leaves, tracks, mutes, speakers, quality.
CREATE TABLE recording_events (
  recording_id TEXT NOT NULL REFERENCES recordings (id) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  type TEXT NOT NULL,
  identity TEXT,
  data TEXT,
  PRIMARY KEY (recording_id, seq)
) STRICT, WITHOUT ROWID;
