-- More parts at once, and each word is written anew less often.
INSERT INTO message_search (message_search, rank) VALUES ('usermerge', 8);
