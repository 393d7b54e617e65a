-- When the streak of failures began (null: the last attempt succeeded), and the oldest event that the endpoint may have
-- missed since somebody last recovered it.
ALTER TABLE webhook_endpoints ADD COLUMN failing_since INTEGER;
ALTER TABLE webhook_endpoints ADD COLUMN missed_since INTEGER;
