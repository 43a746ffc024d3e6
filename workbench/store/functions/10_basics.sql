-- Small things every other file uses: the clock, the caller, settings, where a statement runs.

-- The clock of all runs: clock_timestamp(), unless the schema's owner has set the setting `clock`
-- ({"at": timestamp} or {"offset": seconds}), which tests do. Liveness never uses it.
CREATE OR REPLACE FUNCTION df.now() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
    SELECT coalesce(
        (SELECT coalesce((value ->> 'at')::timestamptz,
                         clock_timestamp() + make_interval(secs => (value ->> 'offset')::float8))
         FROM df.settings WHERE name = 'clock'),
        clock_timestamp())
$$;

CREATE OR REPLACE FUNCTION df._me() RETURNS regrole
LANGUAGE sql STABLE AS $$ SELECT quote_ident(current_user)::regrole $$;

-- The value of a setting: the stored one, else the default of this version.
CREATE OR REPLACE FUNCTION df._setting(name text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT s.value FROM df.settings s WHERE s.name = $1),
                    (SELECT k.fallback FROM df._known_settings() k WHERE k.name = $1))
$$;

CREATE OR REPLACE FUNCTION df._known_settings() RETURNS TABLE (name text, fallback jsonb, meaning text)
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('heartbeat_limit', '15'::jsonb, 'seconds without a heartbeat after which an engine counts as dead'),
           ('max_lost', '3', 'losses of its engine or connection after which a node fails'),
           ('max_faults', '5', 'failed checkpoints after which a node fails'),
           ('max_activity_concurrency', '2', 'leaves that run at once'),
           ('max_http_concurrency', '2', 'HTTP requests that run at once'),
           ('http_allow', '[]', 'restricted hosts and addresses that HTTP steps may reach: ["127.0.0.1", "10.2.0.0/16", ".corp.example"]'),
           ('http_deny', '[]', 'hosts and addresses that HTTP steps may not reach; wins over http_allow'),
           ('list_instances_max_limit', '1000', 'rows that one call of df.list_instances may ask for'),
           ('retention', '"30 days"', 'how long ended lineages are kept: days, a length of time such as "30 days", or "forever"'),
           ('clock', NULL, 'overrides df.now() for tests: {"at": timestamp} or {"offset": seconds}')
$$;

-- The schema's owner decides who else may: GRANT INSERT, UPDATE, DELETE ON df.settings.
CREATE OR REPLACE FUNCTION df.set_setting(name text, value jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    known text;
BEGIN
    SELECT k.name INTO known FROM df._known_settings() k WHERE k.name = $1;
    IF known IS NULL THEN
        RAISE EXCEPTION 'unknown setting "%": nothing was changed', $1 USING ERRCODE = '22023',
            HINT = 'Known settings: ' || (SELECT string_agg(k.name, ', ' ORDER BY k.name) FROM df._known_settings() k);
    END IF;
    IF $2 IS NULL THEN
        DELETE FROM df.settings s WHERE s.name = $1;
        RETURN 'OK';
    END IF;
    IF $1 = 'clock' THEN
        IF jsonb_typeof($2) <> 'object' OR NOT ($2 ? 'at' OR $2 ? 'offset') THEN
            RAISE EXCEPTION 'setting "clock" takes {"at": timestamp} or {"offset": seconds}, not %', $2 USING ERRCODE = '22023';
        END IF;
    ELSIF $1 IN ('http_allow', 'http_deny') THEN
        PERFORM df._check_destinations($1, $2);
    ELSIF $1 = 'retention' THEN
        PERFORM df._check_retention($2);
    ELSIF jsonb_typeof($2) <> 'number' OR ($2 #>> '{}')::numeric <= 0
          OR ($1 <> 'heartbeat_limit' AND ($2 #>> '{}')::numeric <> trunc(($2 #>> '{}')::numeric)) THEN
        RAISE EXCEPTION 'setting "%" takes a positive % and not %', $1,
            CASE $1 WHEN 'heartbeat_limit' THEN 'number of seconds' ELSE 'whole number' END, $2 USING ERRCODE = '22023';
    END IF;
    INSERT INTO df.settings AS s VALUES ($1, $2) ON CONFLICT ON CONSTRAINT settings_pkey DO UPDATE SET value = excluded.value;
    RETURN 'OK';
END $$;

-- Set in every session of steps, but a session pooler may ignore that; the mark of a step's transaction says it, too.
CREATE OR REPLACE FUNCTION df._in_workflow() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(current_setting('df.in_workflow', true), '') = 'true' OR coalesce(current_setting('df.attempt', true), '') <> ''
$$;

-- `0.1.0 (built 20261130-1)`: the release, then the day its schema was installed here and the schema's number.
CREATE OR REPLACE FUNCTION df.version() RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT format('0.1.0 (built %s-%s)', to_char(m.applied_at AT TIME ZONE 'UTC', 'YYYYMMDD'), m.version)
    FROM df.schema_migrations m ORDER BY m.version DESC LIMIT 1
$$;

-- The database whose runs an engine executes is the one that holds them.
CREATE OR REPLACE FUNCTION df.target_database() RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT current_database()::text $$;

-- Where the engines of a role listen.
CREATE OR REPLACE FUNCTION df._channel(role regrole) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'df_' || role::oid $$;

-- Wakes the engines of a role, when this commits. Only for what a user did and for work that only another engine can do:
-- NOTIFY makes commits wait for each other in the whole cluster.
CREATE OR REPLACE FUNCTION df._tell(role regrole) RETURNS void
LANGUAGE sql AS $$ SELECT pg_notify(df._channel(role), '') $$;
