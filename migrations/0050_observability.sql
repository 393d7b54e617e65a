-- One row per participant session of a client; its own name for it is `connection_id`.
CREATE TABLE rtc_connections (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  room_id TEXT,
  room_name TEXT,
  participant_identity TEXT NOT NULL,
  state TEXT NOT NULL,
  server_name TEXT,
  sdk TEXT,
  user_agent TEXT,
  ip_address TEXT,
  reconnect_count INTEGER NOT NULL DEFAULT 0,
  rtt_ms REAL,
  jitter_ms REAL,
  packet_loss_percent REAL,
  join_time_ms INTEGER,
  started_at INTEGER NOT NULL,
  connected_at INTEGER,
  reconnected_at INTEGER,
  last_seen_at INTEGER NOT NULL,
  disconnected_at INTEGER,
  disconnect_reason TEXT
) STRICT;
CREATE INDEX rtc_connections_by_time ON rtc_connections (project_id, environment, started_at, id);
CREATE INDEX rtc_connections_by_state ON rtc_connections (project_id, environment, state, started_at, id);
CREATE INDEX rtc_connections_by_room ON rtc_connections (room_id, started_at, id);
CREATE INDEX rtc_connections_by_client ON rtc_connections (project_id, environment, connection_id);
CREATE INDEX rtc_connections_open ON rtc_connections (project_id, environment, room_id) WHERE disconnected_at IS NULL;
-- Everything that the figures over a range need, side by side: no row of the table is read for them.
CREATE INDEX rtc_connections_figures ON rtc_connections
  (project_id, environment, started_at, connected_at, disconnected_at, state, reconnect_count, join_time_ms);
CREATE INDEX rtc_connections_by_age ON rtc_connections (started_at);

CREATE TABLE rtc_connection_events (
  id INTEGER PRIMARY KEY,
  connection TEXT NOT NULL REFERENCES rtc_connections (id) ON DELETE CASCADE,
  type TEXT NOT NULL,
  source TEXT NOT NULL,
  at INTEGER NOT NULL,
  data TEXT
) STRICT;
CREATE INDEX rtc_connection_events_by_connection ON rtc_connection_events (connection, at, id);

CREATE TABLE rtc_errors (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  category TEXT NOT NULL,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  connection TEXT REFERENCES rtc_connections (id) ON DELETE SET NULL,
  room_id TEXT,
  occurred_at INTEGER NOT NULL
) STRICT;
CREATE INDEX rtc_errors_by_time ON rtc_errors (project_id, environment, occurred_at, id);
CREATE INDEX rtc_errors_by_category ON rtc_errors (project_id, environment, category, occurred_at, id);
CREATE INDEX rtc_errors_by_connection ON rtc_errors (connection);
CREATE INDEX rtc_errors_by_age ON rtc_errors (occurred_at);
