-- Erasures. The name is kept until everything of theirs is gone, so that a crash does not end one half-way; the digest
-- stays, and tells nothing to whoever does not know the name and the key.
CREATE TABLE person_erasures (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  digest TEXT NOT NULL,
  user_id TEXT,
  requested_at INTEGER NOT NULL,
  -- Everything is deleted; what deleted rows left in the file may still have to be overwritten.
  erased_at INTEGER,
  finished_at INTEGER
) STRICT;
CREATE INDEX person_erasures_by_person ON person_erasures (project_id, environment, digest, requested_at);
CREATE INDEX person_erasures_open ON person_erasures (requested_at) WHERE finished_at IS NULL;

-- Exports; the file lies in the data directory under the name of the row.
CREATE TABLE person_exports (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  user_id TEXT NOT NULL,
  status TEXT NOT NULL,
  bytes INTEGER,
  sha256 TEXT,
  requested_at INTEGER NOT NULL,
  finished_at INTEGER
) STRICT;
CREATE INDEX person_exports_by_person ON person_exports (project_id, environment, user_id, requested_at);
CREATE INDEX person_exports_by_age ON person_exports (requested_at);

-- Addresses that are still there, for IP_RETENTION_DAYS.
CREATE INDEX rtc_connections_with_address ON rtc_connections (started_at) WHERE ip_address IS NOT NULL;
CREATE INDEX chat_connections_with_address ON chat_connections (connected_at) WHERE ip_address <> '';
