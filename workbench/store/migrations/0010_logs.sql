-- What a handler printed and logged during an attempt.

ALTER TABLE df.attempts ADD COLUMN logs text;              -- its end, at most 16,000 characters; null: nothing

-- It is made anew with one more column.
DROP FUNCTION IF EXISTS df.instance_attempts(text);
