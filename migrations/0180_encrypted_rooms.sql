-- Rooms that take end-to-end encrypted tracks only, and how many such tracks a recording had to leave out.
ALTER TABLE rooms ADD COLUMN encrypted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE recordings ADD COLUMN encrypted_tracks INTEGER NOT NULL DEFAULT 0;
