-- Secrets of single media nodes. The secret itself follows from the master secret: none is kept here.
CREATE TABLE rtc_node_keys (
  public_id TEXT NOT NULL PRIMARY KEY,
  -- The one node that may come with it.
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX rtc_node_keys_by_name ON rtc_node_keys (name);
