-- The names that a backend gave its users for people to read; null where only the id is known.
ALTER TABLE conversation_members ADD COLUMN name TEXT;
ALTER TABLE call_participants ADD COLUMN name TEXT;
