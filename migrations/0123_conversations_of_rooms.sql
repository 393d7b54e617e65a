-- Which projects attach conversations to rooms: asked once after a start, and answered without a look at each of them.
CREATE INDEX conversations_of_rooms ON conversations (project_id, environment) WHERE room_id IS NOT NULL;
