-- The format of an endpoint's events, and for LiveKit's format the API key that signs them.
ALTER TABLE webhook_endpoints ADD COLUMN format TEXT NOT NULL DEFAULT 'stoa';
ALTER TABLE webhook_endpoints ADD COLUMN api_key_id TEXT;
-- When media of the participant was received first, from which on LiveKit's webhooks count it as joined.
ALTER TABLE call_participants ADD COLUMN connected_at INTEGER;
