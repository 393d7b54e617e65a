ALTER TABLE rooms ADD COLUMN max_participants INTEGER;
ALTER TABLE rooms ADD COLUMN metadata TEXT;
-- A closed room is found by its name too: the one that had it last.
CREATE INDEX rooms_by_name ON rooms (project_id, environment, name, id);
