-- A push subscription may be told what the token that made it may read, and ends with it. Which token made the earlier
-- ones is not known, so they end here; a browser subscribes again when its page calls enablePush.
DELETE FROM push_deliveries;
DELETE FROM push_subscriptions;
ALTER TABLE push_subscriptions ADD COLUMN token_id TEXT;
ALTER TABLE push_subscriptions ADD COLUMN conversations TEXT;
ALTER TABLE push_subscriptions ADD COLUMN granted_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE push_subscriptions ADD COLUMN expires_at INTEGER;
CREATE INDEX push_subscriptions_of_token ON push_subscriptions (token_id);
CREATE INDEX push_subscriptions_by_expiry ON push_subscriptions (expires_at);
