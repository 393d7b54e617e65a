-- Events of one key (a call) are delivered one after the other; null: in any order.
ALTER TABLE webhook_events ADD COLUMN order_key TEXT;

-- What is due at one moment goes in the order in which it was made.
DROP INDEX webhook_deliveries_due;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at, id) WHERE status = 'PENDING';
