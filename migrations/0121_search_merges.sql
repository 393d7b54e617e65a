-- The index merges its parts in small steps of its own (search.service.ts): left to itself it does so within the commit
-- that fills a part, and everybody waits tens of milliseconds for that one.
INSERT INTO message_search (message_search, rank) VALUES ('automerge', 0);
