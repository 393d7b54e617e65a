-- Recordings take room beside attachments: counted by the rows themselves, for the project as a whole.
CREATE TRIGGER recording_files_take_room AFTER INSERT ON recording_files BEGIN
  INSERT INTO storage_usage SELECT project_id, '', new.bytes FROM recordings WHERE id = new.recording_id
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER recording_files_grow AFTER UPDATE OF bytes ON recording_files WHEN new.bytes <> old.bytes BEGIN
  INSERT INTO storage_usage SELECT project_id, '', new.bytes - old.bytes FROM recordings WHERE id = new.recording_id
    ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER recording_files_free_room AFTER DELETE ON recording_files BEGIN
  UPDATE storage_usage SET bytes = bytes - old.bytes WHERE user_id = ''
    AND project_id = (SELECT project_id FROM recordings WHERE id = old.recording_id);
END;

-- The files go while their recording still tells whose they were.
CREATE TRIGGER recordings_free_room BEFORE DELETE ON recordings BEGIN
  DELETE FROM recording_files WHERE recording_id = old.id;
END;

INSERT INTO storage_usage SELECT r.project_id, '', sum(f.bytes) FROM recording_files f
  JOIN recordings r ON r.id = f.recording_id WHERE true GROUP BY r.project_id
  ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;

-- Started minutes of recordings that have ended, beside those of the people in them.
ALTER TABLE usage_days ADD COLUMN recorded_minutes INTEGER NOT NULL DEFAULT 0;
