CREATE TABLE webhook_endpoints (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  url TEXT NOT NULL,
  description TEXT,
  events TEXT NOT NULL DEFAULT '[]',
  status TEXT NOT NULL DEFAULT 'ACTIVE',
  disabled_reason TEXT,
  consecutive_failures INTEGER NOT NULL DEFAULT 0,
  sealed_secret TEXT NOT NULL,
  sealed_previous_secret TEXT,
  previous_secret_until INTEGER,
  last_delivery_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_endpoints_by_project ON webhook_endpoints (project_id, id);

-- The outbox: a log, written by the transaction that caused the event. An endpoint reads on in it at its own pace, so
-- that one that does not answer costs nothing.
CREATE TABLE webhook_events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  type TEXT NOT NULL,
  -- The bytes that every attempt sends.
  body TEXT NOT NULL,
  -- Whose content the body holds, so that a deletion reaches it.
  message_id TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_events_by_project ON webhook_events (project_id, environment, seq);
CREATE INDEX webhook_events_by_message ON webhook_events (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX webhook_events_by_age ON webhook_events (created_at);

-- Stretches of the log that an endpoint is to get: one for each time that it was active. Read up to `position`.
CREATE TABLE webhook_periods (
  endpoint_id TEXT NOT NULL REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
  start_seq INTEGER NOT NULL,
  position INTEGER NOT NULL,
  -- Null while the endpoint is active.
  end_seq INTEGER,
  PRIMARY KEY (endpoint_id, start_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_deliveries (
  id TEXT PRIMARY KEY,
  endpoint_id TEXT NOT NULL REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
  event_id TEXT NOT NULL REFERENCES webhook_events (id) ON DELETE CASCADE,
  status TEXT NOT NULL DEFAULT 'PENDING',
  -- Sent whatever the endpoint's status (a test).
  forced INTEGER NOT NULL DEFAULT 0,
  attempts TEXT NOT NULL DEFAULT '[]',
  attempt_count INTEGER NOT NULL DEFAULT 0,
  -- attempt_count when this round began: a redelivery gets all attempts again.
  round_start INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER,
  last_error TEXT,
  created_at INTEGER NOT NULL,
  delivered_at INTEGER,
  UNIQUE (event_id, endpoint_id)
) STRICT;
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at) WHERE status = 'PENDING';
