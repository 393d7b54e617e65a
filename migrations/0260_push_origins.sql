-- Deliveries are read push service by push service: those that wait for one that hangs must not be in front of all others.
ALTER TABLE push_deliveries ADD COLUMN origin TEXT NOT NULL DEFAULT '';
UPDATE push_deliveries SET origin = (
  SELECT substr(endpoint, 1, 7 + instr(substr(endpoint, 9) || '/', '/')) FROM push_subscriptions WHERE id = subscription_id
);
DROP INDEX push_deliveries_due;
CREATE INDEX push_deliveries_due ON push_deliveries (origin, next_attempt_at);
