-- The last seconds of a connection before something went wrong, or when somebody asked: headers, reports and estimates.
CREATE TABLE rtc_flights (
  id TEXT PRIMARY KEY,
  connection TEXT NOT NULL REFERENCES rtc_connections (id) ON DELETE CASCADE,
  -- The code of the error it was kept for, or `asked`.
  reason TEXT NOT NULL,
  taken_at INTEGER NOT NULL,
  -- JSON, compressed.
  dump BLOB NOT NULL
) STRICT;
CREATE INDEX rtc_flights_by_connection ON rtc_flights (connection, taken_at);
