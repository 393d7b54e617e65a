-- Seconds after which an empty room closes: when nobody has joined it, and when the last one has left. Without the first it
-- stays open.
ALTER TABLE rooms ADD COLUMN empty_timeout INTEGER;
ALTER TABLE rooms ADD COLUMN departure_timeout INTEGER NOT NULL DEFAULT 20;
CREATE INDEX rooms_that_end ON rooms (created_at) WHERE status = 'ACTIVE' AND empty_timeout IS NOT NULL;
