-- The secret of a key that was taken over from a LiveKit server, encrypted; null for keys whose secret is derived.
ALTER TABLE api_keys ADD COLUMN sealed_livekit_secret TEXT;
