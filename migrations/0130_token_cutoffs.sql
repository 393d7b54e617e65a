-- Tokens that a backend signed itself before this time are void: after a removal from a room, and after an erasure in all
-- rooms. The digest names project, room and participant only to whoever knows them and the key. A row goes when the last
-- token that it concerns has expired.
CREATE TABLE token_cutoffs (
  digest TEXT PRIMARY KEY,
  signed_before INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX token_cutoffs_by_age ON token_cutoffs (signed_before);
