-- Permissions that a backend changed while somebody was in the room: they hold for that identity in that room, whichever
-- token it comes with, until they are changed again or the room closes. JSON of the names that were set.
CREATE TABLE participant_permissions (
  room_id TEXT NOT NULL REFERENCES rooms (id),
  participant_identity TEXT NOT NULL,
  permissions TEXT NOT NULL,
  PRIMARY KEY (room_id, participant_identity)
) STRICT, WITHOUT ROWID;
-- Until now they were kept with the one token somebody had joined with.
INSERT OR REPLACE INTO participant_permissions (room_id, participant_identity, permissions)
  SELECT t.room_id, t.participant_identity, t.permissions
  FROM rtc_tokens t JOIN rooms r ON r.id = t.room_id
  WHERE t.permissions IS NOT NULL AND r.status = 'ACTIVE'
  ORDER BY t.created_at;
ALTER TABLE rtc_tokens DROP COLUMN permissions;
