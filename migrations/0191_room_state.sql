-- What hosts decide about a room: who may join it, and whether captions are shown.
ALTER TABLE rooms ADD COLUMN lobby INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rooms ADD COLUMN locked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rooms ADD COLUMN captions INTEGER NOT NULL DEFAULT 0;
