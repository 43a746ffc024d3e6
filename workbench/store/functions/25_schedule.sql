-- Cron expressions: what is accepted, in the same words as workbench.graph.schedule, which alone computes when they fire.

-- Why a schedule is refused, NULL when it is fine.
CREATE OR REPLACE FUNCTION df._cron_fault(cron_expr text, timezone text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    fields text[] := ARRAY(SELECT m[1] FROM regexp_matches(cron_expr, '[^ \t\n\r\f\v]+', 'g') m);
    names text[] := '{minute,hour,day-of-month,month,day-of-week}';
    lows integer[] := '{0,0,1,1,0}';
    highs integer[] := '{59,23,31,12,7}';
    reason text;
BEGIN
    IF cron_expr IS NULL THEN
        RETURN 'Invalid cron expression NULL: expected 5 fields (minute hour day-of-month month day-of-week)';
    ELSIF cardinality(fields) <> 5 THEN
        reason := format('expected 5 fields (minute hour day-of-month month day-of-week), and it has %s', cardinality(fields));
    ELSE
        SELECT f.reason INTO reason
        FROM unnest(names, lows, highs, fields) WITH ORDINALITY AS u (name, low, high, field, n)
        CROSS JOIN LATERAL regexp_split_to_table(u.field, ',') WITH ORDINALITY AS i (item, n)
        CROSS JOIN LATERAL df._cron_item_fault(u.name, u.low, u.high, i.item) AS f (reason)
        WHERE f.reason IS NOT NULL ORDER BY u.n, i.n LIMIT 1;
    END IF;
    IF reason IS NULL AND (fields[3] LIKE '*%' OR fields[5] LIKE '*%') AND NOT df._cron_has_day(fields[3], fields[4]) THEN
        reason := 'it never matches, no such month has that day';
    END IF;
    RETURN CASE WHEN reason IS NOT NULL THEN format('Invalid cron expression ''%s'': %s', cron_expr, reason)
                ELSE df._timezone_fault(timezone) END;
END $$;

-- The view reads the files of all zones (some 20 ms), so names that no zone has are sorted out before.
CREATE OR REPLACE FUNCTION df._timezone_fault(timezone text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF timezone = 'UTC' THEN
        RETURN NULL;
    ELSIF timezone ~ '^[A-Za-z][A-Za-z0-9_+/-]*$' AND timezone !~ '^(localtime|posixrules|Factory|(posix|right)/.*)$'
          AND EXISTS (SELECT FROM pg_timezone_names z WHERE z.name = timezone) THEN
        RETURN NULL;
    END IF;
    RETURN format('Unknown time zone %s: write a name of the IANA database, such as ''Europe/Berlin'' or ''UTC''',
                  coalesce('''' || timezone || '''', 'NULL'));
END $$;

-- One element of a field's list: `*`, a value, a range, each with a step or without.
CREATE OR REPLACE FUNCTION df._cron_item_fault(field text, low integer, high integer, item text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[] := regexp_match(item, '^(?:\*|([0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?)(?:/([0-9]{1,3}))?$');
    first integer := df._cron_value(field, part[1]);
    last integer := df._cron_value(field, part[2]);
BEGIN
    IF part IS NULL OR (part[1] IS NOT NULL AND first IS NULL) OR (part[1] IS NOT NULL AND first BETWEEN low AND high AND part[2] IS NOT NULL AND last IS NULL) THEN
        RETURN format('%s ''%s'' is no value, range or step', field, item);
    ELSIF first NOT BETWEEN low AND high OR last NOT BETWEEN low AND high THEN
        RETURN format('%s ''%s'' is outside %s-%s', field, item, low, high);
    ELSIF first > last AND NOT (field = 'day-of-week' AND last = 0) THEN
        RETURN format('%s ''%s'' runs backwards: write it as two ranges', field, item);
    ELSIF part[3]::integer = 0 THEN
        RETURN format('%s ''%s'' has a step of zero', field, item);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION df._cron_value(field text, word text) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN word ~ '^[0-9]' THEN word::integer
                WHEN field = 'month' THEN array_position('{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}', upper(word COLLATE "C"))
                WHEN field = 'day-of-week' THEN array_position('{SUN,MON,TUE,WED,THU,FRI,SAT}', upper(word COLLATE "C")) - 1 END
$$;

-- Whether the first day that a valid day-of-month field names is in any of the months.
CREATE OR REPLACE FUNCTION df._cron_has_day(days text, months text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (SELECT min(coalesce(substring(d.item FROM '^[0-9]+')::integer, 1)) FROM regexp_split_to_table(days, ',') AS d (item))
           <= (SELECT max((ARRAY[31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[m])
               FROM generate_series(1, 12) m JOIN regexp_split_to_table(months, ',') AS i (item) ON df._cron_has(i.item, m))
$$;

-- Whether a valid element of the month field names this month.
CREATE OR REPLACE FUNCTION df._cron_has(item text, month integer) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT month BETWEEN r.low AND r.high AND (month - r.low) % r.step = 0
    FROM regexp_match(item, '^(?:\*|([^-/]+)(?:-([^/]+))?)(?:/([0-9]+))?$') AS part,
         LATERAL (SELECT coalesce(df._cron_value('month', part[1]), 1) AS low,
                         coalesce(df._cron_value('month', part[2]), CASE WHEN part[1] IS NULL OR part[3] IS NOT NULL THEN 12
                                                                         ELSE df._cron_value('month', part[1]) END) AS high,
                         coalesce(part[3]::integer, 1) AS step) AS r
$$;
