-- Bytes of attachments by project and, within it, by uploader ('' is the project as a whole): kept by the rows themselves,
-- so that no way to make or to lose one forgets to count. Only attachments whose bytes are there, or may still come.
CREATE TABLE storage_usage (
  project_id TEXT NOT NULL REFERENCES projects (id),
  user_id TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  PRIMARY KEY (project_id, user_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER attachments_take_room AFTER INSERT ON attachments WHEN new.status <> 'EXPIRED' BEGIN
  INSERT INTO storage_usage SELECT c.project_id, u.user_id, new.size FROM conversations c
    JOIN (SELECT '' AS user_id UNION SELECT new.uploader_id WHERE new.uploader_id IS NOT NULL) u
    WHERE c.id = new.conversation_id
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER attachments_expire AFTER UPDATE OF status ON attachments
WHEN old.status <> 'EXPIRED' AND new.status = 'EXPIRED' BEGIN
  UPDATE storage_usage SET bytes = bytes - old.size WHERE user_id IN ('', old.uploader_id)
    AND project_id = (SELECT project_id FROM conversations WHERE id = old.conversation_id);
  DELETE FROM storage_usage WHERE bytes <= 0 AND user_id IN ('', old.uploader_id)
    AND project_id = (SELECT project_id FROM conversations WHERE id = old.conversation_id);
END;

CREATE TRIGGER attachments_free_room AFTER DELETE ON attachments WHEN old.status <> 'EXPIRED' BEGIN
  UPDATE storage_usage SET bytes = bytes - old.size WHERE user_id IN ('', old.uploader_id)
    AND project_id = (SELECT project_id FROM conversations WHERE id = old.conversation_id);
  DELETE FROM storage_usage WHERE bytes <= 0 AND user_id IN ('', old.uploader_id)
    AND project_id = (SELECT project_id FROM conversations WHERE id = old.conversation_id);
END;

INSERT INTO storage_usage SELECT c.project_id, '', sum(a.size) FROM attachments a
  JOIN conversations c ON c.id = a.conversation_id WHERE a.status <> 'EXPIRED' GROUP BY c.project_id;
INSERT INTO storage_usage SELECT c.project_id, a.uploader_id, sum(a.size) FROM attachments a
  JOIN conversations c ON c.id = a.conversation_id
  WHERE a.status <> 'EXPIRED' AND a.uploader_id IS NOT NULL GROUP BY c.project_id, a.uploader_id;
