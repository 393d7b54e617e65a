-- A refresh token that comes twice within a moment, from two tabs or after an answer that was lost, is led to its successor;
-- whether anybody has used that one tells the two tabs from a thief.
ALTER TABLE refresh_tokens ADD COLUMN successor TEXT;
ALTER TABLE refresh_tokens ADD COLUMN used_at INTEGER;
