-- Running a failed run again, and the tree that this makes: every run knows the one it was made from (restart_of_run_id), nothing
-- else is stored about it. What failed and how often is in 34, what retention does in 36.

-- A new run with the graph, input, variables, label, database and policy of a failed one of the caller's. The source is not touched.
CREATE OR REPLACE FUNCTION df.retry_run(run_id text) RETURNS SETOF df.instances
LANGUAGE plpgsql VOLATILE ROWS 1 AS $$
DECLARE
    made text := df._retry(run_id, true);
BEGIN
    RETURN QUERY SELECT * FROM df.instances i WHERE i.id = made;
END $$;

CREATE OR REPLACE FUNCTION df._retry(run text, tell boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    definition df.definitions := df._retried(run);
BEGIN
    definition.kind := 'retry';
    -- The graph is not judged a second time: what could be started can be started again.
    RETURN df._new_run(definition, NULL, run, tell);
END $$;

-- What a failed run of the caller's is made of, for a run that follows it.
CREATE OR REPLACE FUNCTION df._retried(run text) RETURNS df.definitions
LANGUAGE plpgsql AS $$
DECLARE
    source record;
    definition df.definitions;
BEGIN
    SELECT i.status, i.submitted_by INTO source FROM df.instances i WHERE i.id = run;
    IF FOUND THEN
        PERFORM df._check_retry(run, source.status, source.submitted_by);
        -- From here on retention leaves the source alone. Retries do not wait for each other.
        PERFORM FROM df.instances i WHERE i.id = run FOR KEY SHARE;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Instance not found or access denied: %: nothing was started', coalesce(run, 'NULL') USING ERRCODE = '02000',
            HINT = 'Your failed runs: SELECT * FROM df.unresolved_failures();';
    END IF;
    SELECT d.* INTO definition FROM df.definitions d WHERE d.instance_id = run;
    definition.instance_id := NULL;
    PERFORM df._check_place(definition.database);
    RETURN definition;
END $$;

CREATE OR REPLACE FUNCTION df._check_retry(run text, status text, owner regrole) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF owner <> df._me() THEN
        RAISE EXCEPTION 'run % belongs to role %, and only that role can retry it: nothing was started', run, owner USING ERRCODE = '42501',
            HINT = format('Engines execute only runs of their own role. Who may become that role can say: SET ROLE %s; '
                          'SELECT * FROM df.retry_run(%L);', owner, run);
    ELSIF status <> 'failed' THEN
        RAISE EXCEPTION 'run % is %, and only a failed run can be retried: nothing was started', run, status USING ERRCODE = '55000',
            HINT = CASE WHEN status IN ('pending', 'running') THEN 'Wait until it ends: df.await_instance, or df.retry_now for a step that waits for its next attempt.'
                        ELSE 'df.start with its graph starts it once more.' END;
    END IF;
END $$;

-- Stores a run that is due at once: the way of every start and every retry. `definition` says what it is made of; whose it is,
-- when and under which settings is filled in here, and its id unless it says one.
CREATE OR REPLACE FUNCTION df._new_run(definition df.definitions, key text, source text, tell boolean) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := df.now();
    given text := definition.instance_id;
BEGIN
    definition.submitted_by := df._me();
    definition.created_at := now;
    definition.settings := df._settings_of_runs();
    LOOP
        definition.instance_id := coalesce(given, left(replace(gen_random_uuid()::text, '-', ''), 8));
        INSERT INTO df.instances (id, submitted_by, wake_at, created_at, updated_at, idempotency_key, restart_of_run_id)
        VALUES (definition.instance_id, definition.submitted_by, now, now, now, key, source) ON CONFLICT (id) DO NOTHING;
        EXIT WHEN FOUND;
        IF given IS NOT NULL THEN
            RAISE EXCEPTION 'run % exists already: nothing was started', given USING ERRCODE = '23505', HINT = 'Give another run_id, or none.';
        END IF;
    END LOOP;
    PERFORM df._define(definition.instance_id, definition.graph::text);
    INSERT INTO df.definitions SELECT definition.*;
    IF tell THEN
        PERFORM df._tell(definition.submitted_by);
    END IF;
    RETURN definition.instance_id;
END $$;

-- Settings that have been set and may change how a run goes.
CREATE OR REPLACE FUNCTION df._settings_of_runs() RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_object_agg(s.name, s.value), '{}') FROM df.settings s
    WHERE s.name NOT IN ('clock', 'retention', 'list_instances_max_limit')
$$;

-- Called by row security, so it is replaced and never dropped.
CREATE OR REPLACE FUNCTION df.is_own_run(run_id text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM df.instances i WHERE i.id = run_id AND i.submitted_by = df._me());
END $$;

-- The run that a run's lineage began with; a run that was started is its own.
CREATE OR REPLACE FUNCTION df._root(run text) RETURNS text
LANGUAGE sql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    WITH RECURSIVE up AS (
        SELECT i.id, i.restart_of_run_id FROM df.instances i WHERE i.id = run
        UNION
        SELECT i.id, i.restart_of_run_id FROM up u JOIN df.instances i ON i.id = u.restart_of_run_id
    )
    SELECT u.id FROM up u WHERE u.restart_of_run_id IS NULL
$$;

-- The whole tree, from any of its members: each run is followed by its retries, the oldest first, and theirs. `depth` is 0 for the
-- first run; `kind` start, retry or resume; `error` one line; `is_latest` marks the newest run that nobody has retried.
CREATE OR REPLACE FUNCTION df.lineage(of_run_id text)
RETURNS TABLE (
    run_id text, restart_of_run_id text, "position" integer, depth integer, kind text, status text, label text,
    created_at timestamptz, started_at timestamptz, finished_at timestamptz, error text, is_latest boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    root text := df._root(of_run_id);
BEGIN
    IF root IS NULL THEN
        RAISE EXCEPTION 'Instance not found or access denied: %', coalesce(of_run_id, 'NULL') USING ERRCODE = '02000';
    END IF;
    -- `place` sorts runs into that order: a first retry has its source's place, a further one adds at which depth it branched
    -- off (deeper ones come first) and which it is. So a chain of any length has short places.
    RETURN QUERY
    WITH RECURSIVE tree AS (
        SELECT i.id, i.restart_of_run_id AS source, 0 AS depth, '{}'::integer[] AS place,
               i.status, i.created_at, i.started_at, i.finished_at, i.error
        FROM df.instances i WHERE i.id = root
        UNION ALL
        SELECT i.id, t.id, t.depth + 1, CASE i.nth WHEN 1 THEN t.place ELSE t.place || ARRAY[-1 - t.depth, i.nth] END,
               i.status, i.created_at, i.started_at, i.finished_at, i.error
        FROM tree t CROSS JOIN LATERAL (
            SELECT c.*, row_number() OVER (ORDER BY c.created_at, c.id)::integer AS nth
            FROM df.instances c WHERE c.restart_of_run_id = t.id) i
    )
    SELECT t.id, t.source, (row_number() OVER (ORDER BY t.place, t.depth))::integer, t.depth, d.kind, t.status, d.label,
           t.created_at, t.started_at, t.finished_at, df._one_line(t.error),
           -- (As EXISTS the planner would read all runs for it.)
           1 = row_number() OVER (ORDER BY (SELECT true FROM df.instances c WHERE c.restart_of_run_id = t.id LIMIT 1) NULLS FIRST,
                                           t.created_at DESC, t.depth DESC, t.id)
    FROM tree t JOIN df.definitions d ON d.instance_id = t.id
    ORDER BY t.place, t.depth;
END $$;

-- An error in a line: its type and the beginning of its message.
CREATE OR REPLACE FUNCTION df._one_line(error jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT concat_ws(': ', error ->> 'type', CASE WHEN length(m.text) > 200 THEN left(m.text, 199) || '…' ELSE m.text END)
    FROM (SELECT nullif(btrim(regexp_replace(left(error ->> 'message', 1000), '\s+', ' ', 'g')), '') AS text) m WHERE error IS NOT NULL
$$;

-- Failed runs, the newest failure first, of which no retry and no retry of a retry has completed; with `since` those that failed
-- since then. `newest_retry` is the last that was made of this very run, whatever became of it.
CREATE OR REPLACE FUNCTION df.unresolved_failures(since timestamptz DEFAULT NULL)
RETURNS TABLE (
    run_id text, label text, created_at timestamptz, started_at timestamptz, finished_at timestamptz, error text,
    restart_of_run_id text, newest_retry text, newest_retry_status text)
LANGUAGE sql STABLE ROWS 100 SET enable_seqscan = off AS $$
    -- From what completed upwards: each run is met once, however long the chains are. What completes a failure ends after it.
    WITH RECURSIVE resolved AS (
        SELECT i.restart_of_run_id AS id FROM df.instances i
        WHERE i.restart_of_run_id IS NOT NULL AND i.status = 'completed' AND i.finished_at >= coalesce(since, '-infinity')
        UNION
        SELECT i.restart_of_run_id FROM resolved r JOIN df.instances i ON i.id = r.id WHERE i.restart_of_run_id IS NOT NULL
    )
    SELECT i.id, d.label, i.created_at, i.started_at, i.finished_at, df._one_line(i.error), i.restart_of_run_id, newest.id, newest.status
    FROM df.instances i JOIN df.definitions d ON d.instance_id = i.id
    LEFT JOIN LATERAL (
        SELECT r.id, r.status FROM df.instances r WHERE r.restart_of_run_id = i.id ORDER BY r.created_at DESC, r.id LIMIT 1) newest ON true
    WHERE i.status = 'failed' AND i.finished_at >= coalesce(since, '-infinity') AND NOT EXISTS (SELECT FROM resolved r WHERE r.id = i.id)
    ORDER BY i.finished_at DESC, i.id
$$;

-- What differs between a run and the one it was made from: `what` is handler (a fingerprint of its code, at its last attempt), engine
-- (version and host of the last attempt), setting, variable, policy, input or database. A NULL: not set there. No rows for a run that was
-- started; handlers and engines only when both runs have attempts.
CREATE OR REPLACE FUNCTION df.run_diff(run_id text) RETURNS TABLE (what text, name text, before text, after text)
LANGUAGE sql STABLE AS $$ SELECT * FROM df._run_diff(run_id, NULL) $$;

-- The same against any other run; against the one it was made from when `other` is NULL.
CREATE OR REPLACE FUNCTION df._run_diff(run text, other text) RETURNS TABLE (what text, name text, before text, after text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    source text;
    known boolean;
    missing text;
BEGIN
    SELECT r INTO missing FROM unnest(ARRAY[coalesce(run, 'NULL'), other]) r
    WHERE r IS NOT NULL AND NOT EXISTS (SELECT FROM df.instances i WHERE i.id = r) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'Instance not found or access denied: %', missing USING ERRCODE = '02000';
    END IF;
    source := coalesce(other, (SELECT i.restart_of_run_id FROM df.instances i WHERE i.id = run));
    SELECT bool_and(d.settings IS NOT NULL) INTO known FROM df.definitions d WHERE d.instance_id IN (run, source);
    RETURN QUERY
    SELECT what, name, b.value, a.value
    FROM (SELECT * FROM df._facts(source)) b FULL JOIN (SELECT * FROM df._facts(run)) a USING (what, name)
    WHERE source IS NOT NULL AND b.value IS DISTINCT FROM a.value
      AND (known OR what <> 'setting') AND (what NOT IN ('handler', 'engine') OR (b.value IS NOT NULL AND a.value IS NOT NULL))
    ORDER BY what, name;
END $$;

-- What differs between each of these runs and the one it was made from.
CREATE OR REPLACE FUNCTION df._run_diffs(runs text[]) RETURNS TABLE (run_id text, what text, name text, before text, after text)
LANGUAGE sql STABLE AS $$
    SELECT r.id, d.* FROM unnest(runs) AS r (id) CROSS JOIN LATERAL df._run_diff(r.id, NULL) d
$$;

-- What a run was made of and executed by, as far as runs are compared.
CREATE OR REPLACE FUNCTION df._facts(run text) RETURNS TABLE (what text, name text, value text)
LANGUAGE sql STABLE AS $$
    SELECT f.* FROM df.definitions d CROSS JOIN LATERAL (
        SELECT 'variable', v.key, v.value FROM jsonb_each_text(d.vars) v
        UNION ALL SELECT 'setting', s.key, s.value::text FROM jsonb_each(d.settings) s
        UNION ALL SELECT * FROM (VALUES
            ('policy', 'max_attempts', d.max_attempts::text), ('policy', 'max_backoff', d.max_backoff::text),
            ('policy', 'on_failure', d.on_failure), ('database', '', d.database), ('input', '', left(d.input::text, 2048))) p) f
    WHERE d.instance_id = run
    UNION ALL
    (SELECT DISTINCT ON (n.handler) 'handler', n.handler, a.fingerprint
     FROM df.nodes n JOIN df.attempts a ON a.instance_id = n.instance_id AND a.node_id = n.node_id AND a.submitted_by = n.submitted_by
     WHERE n.instance_id = run AND n.handler IS NOT NULL AND a.fingerprint IS NOT NULL ORDER BY n.handler, a.rev DESC)
    UNION ALL
    (SELECT 'engine', x.key, x.value
     FROM (SELECT a.engine_id FROM df.attempts a WHERE a.instance_id = run AND a.engine_id IS NOT NULL ORDER BY a.rev DESC LIMIT 1) a
     JOIN df.engines e ON e.id = a.engine_id CROSS JOIN LATERAL (VALUES ('version', e.version), ('host', e.host)) x (key, value))
$$;
