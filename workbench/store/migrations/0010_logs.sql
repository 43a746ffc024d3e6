-- What a handler printed and logged during an attempt.

ALTER TABLE df.attempts ADD COLUMN logs text;              -- its end, at most 16,000 characters; null: nothing
