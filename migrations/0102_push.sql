-- Browsers that want to be woken. The endpoint is a secret of its owner: whoever knows it can ask the push service.
CREATE TABLE push_subscriptions (
  id TEXT PRIMARY KEY,
  public_id TEXT NOT NULL UNIQUE,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  user_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  -- Both keys of the browser, base64url.
  p256dh TEXT NOT NULL,
  auth TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_pushed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX push_subscriptions_once ON push_subscriptions (project_id, environment, endpoint);
CREATE INDEX push_subscriptions_by_user ON push_subscriptions (project_id, environment, user_id, id);

-- What happened, until it is decided who is to be woken for it. Written with the change that caused it.
CREATE TABLE push_queue (
  id INTEGER PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects (id),
  environment TEXT NOT NULL,
  kind TEXT NOT NULL,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  -- The message or the ring: its content is read when it is sent, so that what was deleted is not sent.
  subject_id TEXT NOT NULL,
  -- Members up to here have been looked at.
  position TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE push_deliveries (
  id INTEGER PRIMARY KEY,
  subscription_id TEXT NOT NULL REFERENCES push_subscriptions (id) ON DELETE CASCADE,
  kind TEXT NOT NULL,
  -- A newer one of the same topic takes the place of one that waits.
  topic TEXT NOT NULL,
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  subject_id TEXT NOT NULL,
  attempt_count INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX push_deliveries_by_topic ON push_deliveries (subscription_id, topic);
CREATE INDEX push_deliveries_due ON push_deliveries (next_attempt_at);
CREATE INDEX push_deliveries_of_conversation ON push_deliveries (conversation_id);

-- What a member wants to be woken for in a conversation; no row: everything.
CREATE TABLE notification_settings (
  conversation_id TEXT NOT NULL REFERENCES conversations (id),
  user_id TEXT NOT NULL,
  level TEXT NOT NULL,
  muted_until INTEGER,
  PRIMARY KEY (conversation_id, user_id)
) STRICT, WITHOUT ROWID;
