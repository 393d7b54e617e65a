-- A call is the time in which a room has participants: from the first join to the last leave.
CREATE TABLE calls (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  room_id TEXT NOT NULL,
  room_name TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  -- The last moment it was known to live: where a crash ends it.
  last_seen_at INTEGER NOT NULL,
  ended_at INTEGER,
  -- Distinct identities so far.
  participant_count INTEGER NOT NULL,
  peak_participants INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_newest ON calls (project_id, environment, started_at, id);
CREATE INDEX calls_of_room ON calls (project_id, environment, room_id, started_at, id);
CREATE INDEX calls_live ON calls (room_id) WHERE ended_at IS NULL;
CREATE INDEX calls_by_age ON calls (started_at);

-- One row for each time that somebody was in a call.
CREATE TABLE call_participants (
  call_id TEXT NOT NULL REFERENCES calls (id) ON DELETE CASCADE,
  -- The session of the RTC socket, which outlasts dropped sockets.
  session_id TEXT NOT NULL,
  identity TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  joined_at INTEGER NOT NULL,
  left_at INTEGER,
  leave_reason TEXT,
  quality TEXT,
  verdict TEXT,
  PRIMARY KEY (call_id, session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX call_participants_by_identity ON call_participants (call_id, identity);
