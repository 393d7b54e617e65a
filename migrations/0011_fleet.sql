CREATE TABLE rtc_servers (
  name TEXT PRIMARY KEY,
  region TEXT NOT NULL,
  public_host TEXT NOT NULL,
  internal_url TEXT NOT NULL,
  capacity INTEGER,
  version TEXT,
  draining INTEGER NOT NULL DEFAULT 0,
  active_rooms INTEGER,
  active_participants INTEGER,
  cpu_percent REAL,
  memory_percent REAL,
  network_in_bps REAL,
  network_out_bps REAL,
  registered_at INTEGER NOT NULL,
  last_heartbeat_at INTEGER,
  -- The later of registration and heartbeat: the last sign of life.
  seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
