-- What the optional objects of a node (retry, policy, options) must say, in the words of workbench/graph/extras.py.

CREATE OR REPLACE FUNCTION df._extras_fault(node jsonb, kind text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(
        df._retry_fault(df._object(node -> 'retry')),
        df._policy_fault(df._object(node -> 'policy')),
        df._options_fault(kind, df._object(node -> 'options')),
        CASE WHEN node #> '{options,until}' = 'true' AND coalesce(jsonb_typeof(node -> 'condition_node'), 'null') = 'null'
             THEN 'option ''until'' needs a condition_node, which it asks' END)
$$;

-- A null is as good as an absent object.
CREATE OR REPLACE FUNCTION df._object(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE '{}' END $$;

CREATE OR REPLACE FUNCTION df._options_fault(kind text, options jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT f.fault
    FROM jsonb_each(options) WITH ORDINALITY AS o (key, value, n)
    CROSS JOIN (SELECT CASE WHEN kind = 'SQL' THEN '{transaction,timeout,start_delay}' WHEN kind = 'PYTHON' THEN '{timeout,start_delay}' WHEN kind IN ('MAP', 'EXTERNAL') THEN '{start_delay}' WHEN kind = 'LOOP' THEN '{min_interval,until}'
                            WHEN kind IN ('HTTP', 'HTTP_MULTIPART') THEN '{retry_statuses,raise_for_status,sink,timeout,start_delay}' ELSE '{}' END::text[]) AS k (known)
    CROSS JOIN LATERAL (SELECT CASE
        WHEN o.key <> ALL (k.known) THEN
            format('option ''%s'' is not valid for %s nodes%s', o.key, kind, '; it has ' || nullif(array_to_string(k.known, ', '), ''))
        WHEN o.key IN ('min_interval', 'start_delay') THEN CASE WHEN NOT df._is_seconds(o.value, df._max_seconds()) THEN
            format('option ''%s'' must be seconds from 0 to %s, not %s', o.key, df._max_seconds(), left(o.value::text, 100)) END
        WHEN o.key = 'timeout' THEN CASE WHEN NOT df._is_seconds(o.value, df._max_seconds()) OR o.value = '0' THEN
            format('option ''timeout'' must be seconds above 0, to %s, not %s', df._max_seconds(), left(o.value::text, 100)) END
        WHEN o.key = 'retry_statuses' THEN CASE WHEN NOT df._is_statuses(o.value) THEN
            'option ''retry_statuses'' must be a list of HTTP statuses from 100 to 599, not ' || left(o.value::text, 100) END
        WHEN o.key = 'sink' THEN CASE WHEN NOT df._is_sink(o.value) THEN
            'option ''sink'' must read schema.table(column), not ' || left(o.value::text, 100) END
        WHEN jsonb_typeof(o.value) <> 'boolean' THEN format('option ''%s'' must be true or false, not %s', o.key, left(o.value::text, 100))
    END) AS f (fault)
    WHERE f.fault IS NOT NULL ORDER BY o.n LIMIT 1
$$;

CREATE OR REPLACE FUNCTION df._retry_fault(retry jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT f.fault
    FROM jsonb_each(retry) WITH ORDINALITY AS r (key, value, n) CROSS JOIN LATERAL (SELECT CASE
        WHEN r.key = 'max_attempts' THEN CASE WHEN NOT df._is_count(r.value) THEN
            'retry max_attempts must be an integer >= 1, not ' || left(r.value::text, 100) END
        WHEN r.key IN ('base_delay', 'max_backoff') THEN CASE WHEN NOT df._is_seconds(r.value, 'infinity') THEN
            format('retry %s must be seconds, finite and >= 0, not %s', r.key, left(r.value::text, 100)) END
        ELSE format('unknown key ''%s'' in retry; use max_attempts, base_delay, max_backoff', r.key)
    END) AS f (fault)
    WHERE f.fault IS NOT NULL ORDER BY r.n LIMIT 1
$$;

CREATE OR REPLACE FUNCTION df._policy_fault(policy jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p.key <> 'http' THEN format('unknown key ''%s'' in policy; the only one is ''http''', p.key)
        WHEN jsonb_typeof(p.value) <> 'object' OR NOT p.value ? 'max_concurrency' OR p.value - 'max_concurrency' <> '{}' THEN
            'policy must read {"http": {"max_concurrency": N}}'
        ELSE 'policy max_concurrency must be an integer >= 1, not ' || left((p.value -> 'max_concurrency')::text, 100) END
    FROM jsonb_each(policy) AS p (key, value)
    WHERE p.key <> 'http' OR jsonb_typeof(p.value) <> 'object' OR NOT p.value ? 'max_concurrency' OR p.value - 'max_concurrency' <> '{}'
       OR NOT df._is_count(p.value -> 'max_concurrency')
    LIMIT 1
$$;

CREATE OR REPLACE FUNCTION df._is_seconds(value jsonb, most numeric) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE jsonb_typeof(value) WHEN 'number' THEN (value #>> '{}')::numeric BETWEEN 0 AND most ELSE false END
$$;

CREATE OR REPLACE FUNCTION df._is_count(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT jsonb_typeof(value) = 'number' AND value::text ~ '^[0-9]+$' AND value <> '0' $$;

CREATE OR REPLACE FUNCTION df._is_statuses(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_typeof(value) = 'array'
       AND NOT EXISTS (SELECT FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[]' END) AS s (status)
                       WHERE s.status::text !~ '^[1-5][0-9][0-9]$')
$$;

-- A column of a table, each name as SQL has it (workbench/graph/sinks.py).
CREATE OR REPLACE FUNCTION df._is_sink(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_typeof(value) = 'string' AND value #>> '{}' ~ format('^%1$s\.%1$s\(%1$s\)$', n.name)
    FROM (VALUES ('([A-Za-z_\u0080-\U0010ffff][A-Za-z_\u0080-\U0010ffff0-9$]*|"([^"]|"")+")')) AS n (name)
$$;
