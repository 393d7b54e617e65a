-- The worst verdict among the participants who have left, so that a list of calls can be filtered by it.
ALTER TABLE calls ADD COLUMN quality TEXT;
ALTER TABLE calls ADD COLUMN cause TEXT;
UPDATE calls SET (quality, cause) = (
  SELECT json_extract(verdict, '$.quality'), json_extract(verdict, '$.cause') FROM call_participants
  WHERE call_id = calls.id AND verdict IS NOT NULL
  ORDER BY CASE json_extract(verdict, '$.quality') WHEN 'lost' THEN 0 WHEN 'poor' THEN 1 WHEN 'good' THEN 2 ELSE 3 END,
    json_extract(verdict, '$.cause') = 'none', joined_at
  LIMIT 1
);
