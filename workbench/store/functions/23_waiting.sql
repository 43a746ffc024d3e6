-- Building steps that wait: sleep, schedule, signal; and what their configs must say, in the words of
-- workbench/graph/configs.py. Cron expressions are judged in 25.

CREATE OR REPLACE FUNCTION df.sleep(seconds bigint) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT coalesce(df._refuse(CASE WHEN seconds < 0 THEN 'Sleep duration must be non-negative' END),
                    '{"node_type":"SLEEP","query":"' || seconds || '"}')
$$;

-- Five fields, read in the time zone; the first match after the step has begun.
CREATE OR REPLACE FUNCTION df.wait_for_schedule(cron_expr text, timezone text DEFAULT 'UTC') RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT coalesce(
        df._refuse(df._cron_fault(cron_expr, timezone)),
        '{"node_type":"WAIT_SCHEDULE","query":' || to_json('{"cron_expr":' || to_json(cron_expr)
        || CASE WHEN timezone = 'UTC' THEN '' ELSE ',"timezone":' || to_json(timezone) END || '}') || '}')
$$;

CREATE OR REPLACE FUNCTION df.wait_for_signal(name text, timeout_seconds integer DEFAULT NULL) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(
        df._refuse(df._signal_fault(jsonb_build_object('signal_name', name, 'timeout_seconds', timeout_seconds))),
        '{"node_type":"SIGNAL","query":' || to_json('{"signal_name":' || to_json(name)
        || ',"timeout_seconds":' || coalesce(timeout_seconds::text, 'null') || '}') || '}')
$$;

-- The longest wait, 1,000 years: later than that no engine's clock can say.
CREATE OR REPLACE FUNCTION df._max_seconds() RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$ SELECT 31557600000::numeric $$;

CREATE OR REPLACE FUNCTION df._seconds_fault(query text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format('query in SLEEP must be a number of seconds from 0 to %s, not ''%s''', df._max_seconds(), left(query, 100))
    WHERE CASE WHEN query ~ '^[0-9]{1,11}(\.[0-9]{1,6})?$' THEN query::numeric > df._max_seconds() ELSE true END
$$;

CREATE OR REPLACE FUNCTION df._schedule_fault(config jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(config -> 'cron_expr') <> 'string' THEN
            'cron_expr in WAIT_SCHEDULE must be text, not ' || jsonb_typeof(config -> 'cron_expr')
        WHEN jsonb_typeof(config -> 'timezone') <> 'string' THEN
            'timezone in WAIT_SCHEDULE must be text, not ' || jsonb_typeof(config -> 'timezone')
        ELSE df._cron_fault(config ->> 'cron_expr', coalesce(config ->> 'timezone', 'UTC')) END
$$;

CREATE OR REPLACE FUNCTION df._signal_fault(config jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(config -> 'signal_name') IS DISTINCT FROM 'string' OR config ->> 'signal_name' = '' THEN
            'Signal name cannot be empty'
        WHEN coalesce(config ->> 'timeout_seconds', '1') !~ '^-?[0-9]+$' OR jsonb_typeof(config -> 'timeout_seconds') = 'string'
             OR (config ->> 'timeout_seconds')::numeric > 2147483647 THEN
            'Timeout must be a whole number of seconds up to 2147483647, not ' || left((config -> 'timeout_seconds')::text, 100)
        WHEN (config ->> 'timeout_seconds')::numeric <= 0 THEN 'Timeout must be positive'
    END
$$;
