-- What an engine calls, one function a verb. Locking comes first and reading in a later statement (READ COMMITTED gives
-- each its own snapshot); every query is bound to the caller's own runs, whatever row security would let it see.
-- Planner switches: the tables may have been empty when a plan was made and hold millions of rows when it is used.

-- Is this engine entitled to claim? An engine that was found dead must take a new identity first.
CREATE OR REPLACE FUNCTION df._alive(engine text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM df.engines e WHERE e.id = engine AND e.died_at IS NULL AND e.stopped_at IS NULL)
$$;

-- A run's nodes that changed after `since`, as arrays in the order of workbench.engine.model.NodeState.
CREATE OR REPLACE FUNCTION df._node_rows(run text, since bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT json_agg(json_build_array(n.node_id, n.status, n.rev, n.attempt, n.losses, n.faults, n.autocommit, n.token, n.engine_id,
                                     n.ready_at, n.started_at, n.result_node, n.error) ORDER BY n.node_id)::text
    FROM df.nodes n WHERE n.instance_id = run AND n.rev > since
$$;

-- Everything an engine needs to hold a copy of these runs; what is immutable only for those it does not hold yet.
CREATE OR REPLACE FUNCTION df._load(runs text[], known text[])
RETURNS TABLE (id text, status text, version bigint, graph text, label text, input text, vars text, database text,
               max_attempts integer, max_backoff double precision, on_failure text, nodes text)
LANGUAGE sql STABLE ROWS 50 AS $$
    SELECT i.id, i.status, i.version, d.graph::text, d.label, d.input::text, d.vars::text, d.database,
           d.max_attempts, extract(epoch FROM d.max_backoff)::float8, d.on_failure,
           CASE WHEN i.version > 0 THEN df._node_rows(i.id, -1) END
    FROM unnest(runs) WITH ORDINALITY AS r (id, n)
    JOIN df.instances i ON i.id = r.id AND i.submitted_by = df._me()
    JOIN df.definitions d ON d.instance_id = i.id
    WHERE i.id <> ALL (known) ORDER BY r.n
$$;

-- Locks the runs that are due and nobody else holds, and returns them whole.
CREATE OR REPLACE FUNCTION df._due(most integer)
RETURNS TABLE (id text, status text, version bigint, graph text, label text, input text, vars text, database text,
               max_attempts integer, max_backoff double precision, on_failure text, nodes text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    locked text[];
    cutoff timestamptz := df.now();
BEGIN
    locked := ARRAY(SELECT i.id FROM df.instances i
                    WHERE i.submitted_by = df._me() AND i.wake_at <= cutoff AND i.parked IS NULL
                    ORDER BY i.wake_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
    IF locked <> '{}' THEN
        RETURN QUERY SELECT * FROM df._load(locked, '{}');
    END IF;
END $$;

-- Locks those of the runs that nobody else holds, and says how their rows differ from the caller's copies, or that there are
-- none any more.
CREATE OR REPLACE FUNCTION df._lock(runs text[], versions bigint[])
RETURNS TABLE (id text, status text, version bigint, nodes text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    locked text[];
BEGIN
    locked := ARRAY(SELECT i.id FROM df.instances i WHERE i.id = ANY (runs) AND i.submitted_by = df._me()
                    ORDER BY i.id FOR NO KEY UPDATE SKIP LOCKED);
    RETURN QUERY
        SELECT r.id, coalesce(i.status, 'deleted'), coalesce(i.version, -1),
               CASE WHEN i.version <> r.version THEN df._node_rows(i.id, r.version) END
        FROM unnest(runs, versions) AS r (id, version)
        LEFT JOIN df.instances i ON i.id = r.id AND i.submitted_by = df._me()
        WHERE r.id = ANY (locked) OR i.id IS NULL;
END $$;

-- The same for the one run of a SQL step, which waits until it has the lock: a JSON array of its id, status, version, changed
-- nodes and the clock, read after the lock; NULL when it is gone. (A function in FROM would cost twice as much to plan.)
CREATE OR REPLACE FUNCTION df._lock_one(run text, mine bigint) RETURNS json
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    locked record;
BEGIN
    SELECT i.id, i.status, i.version INTO locked
    FROM df.instances i WHERE i.id = run AND i.submitted_by = df._me() FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN json_build_array(locked.id, locked.status, locked.version,
                            CASE WHEN locked.version <> mine THEN df._node_rows(run, mine) END, df.now());
END $$;

-- Claims ready leaves, oldest first: one token each, drawn by the engine beforehand. Nothing is locked but the rows taken.
-- At most one suspect (a node that was lost before) runs on an engine at a time, so that a step which kills its worker
-- takes no others with it twice.
CREATE OR REPLACE FUNCTION df._claim(engine text, tokens uuid[], handlers text[], suspect boolean, since timestamptz)
RETURNS TABLE (instance_id text, node_id integer, token uuid, rev bigint, ready_at timestamptz, is_suspect boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    cutoff timestamptz := df.now();
    taken record;
    suspected record;
BEGIN
    IF NOT df._alive(engine) THEN
        RETURN;
    END IF;
    IF suspect THEN
        SELECT n.instance_id, n.node_id INTO suspected FROM df.nodes n
        WHERE n.status = 'ready' AND n.losses > 0 AND n.submitted_by = df._me()
          AND n.ready_at <= cutoff AND n.ready_at >= since AND (n.handler IS NULL OR n.handler = ANY (handlers))
        ORDER BY n.ready_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    SELECT array_agg(r.instance_id) AS runs, array_agg(r.node_id) AS nodes INTO taken FROM (
        SELECT n.instance_id, n.node_id FROM df.nodes n
        WHERE n.status = 'ready' AND n.losses = 0 AND n.submitted_by = df._me()
          AND n.ready_at <= cutoff AND n.ready_at >= since AND (n.handler IS NULL OR n.handler = ANY (handlers))
        ORDER BY n.ready_at LIMIT cardinality(tokens) - (suspected IS NOT NULL)::integer FOR NO KEY UPDATE SKIP LOCKED) AS r;
    IF suspected IS NOT NULL THEN
        taken.runs := suspected.instance_id || taken.runs;
        taken.nodes := suspected.node_id || taken.nodes;
    END IF;
    IF taken.runs IS NOT NULL THEN
        RETURN QUERY
            UPDATE df.nodes n SET status = 'running', token = t.token, engine_id = engine, started_at = cutoff
            FROM unnest(taken.runs, taken.nodes, tokens) AS t (instance_id, node_id, token)
            WHERE n.instance_id = t.instance_id AND n.node_id = t.node_id
            RETURNING n.instance_id, n.node_id, n.token, n.rev, n.ready_at, n.losses > 0;
    END IF;
END $$;

-- Handlers that ready nodes ask for and the caller has not yet looked for.
CREATE OR REPLACE FUNCTION df._wanted_handlers(known text[]) RETURNS SETOF text
LANGUAGE sql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT DISTINCT n.handler FROM df.nodes n
    WHERE n.status = 'ready' AND n.submitted_by = df._me() AND n.handler <> ALL (known) LIMIT 100
$$;

-- Writes transitions that workbench.engine.machine decided at one moment; the caller holds the locks of all these runs. Keys
-- that are absent mean NULL, 0 or false: most of a transition's are, and reading JSON is a large part of what it costs.
-- `tell`: something in it concerns other engines.
CREATE OR REPLACE FUNCTION df._checkpoint(
    engine text, at timestamptz, runs json, nodes json, attempts json, named json, tell boolean
) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    written bigint;
BEGIN
    UPDATE df.instances i
    SET status = c.status, version = c.version, wake_at = c.wake_at, error = c.error, parked = c.parked, updated_at = at,
        started_at = coalesce(i.started_at, at),
        finished_at = CASE WHEN c.status IN ('completed', 'failed', 'cancelled') THEN at END,
        idempotency_key = CASE WHEN c.status <> 'cancelled' THEN i.idempotency_key END
    FROM json_to_recordset(runs) AS c (id text, status text, version bigint, wake_at timestamptz, error jsonb, parked jsonb)
    WHERE i.id = c.id AND i.version = c.version - 1;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> json_array_length(runs) THEN
        RAISE EXCEPTION 'a run changed under its lock: % of % written', written, json_array_length(runs) USING ERRCODE = 'XX000';
    END IF;
    IF nodes IS NOT NULL THEN
        UPDATE df.nodes n
        SET status = c.status, rev = c.rev, attempt = coalesce(c.attempt, 0), losses = coalesce(c.losses, 0), faults = coalesce(c.faults, 0),
            autocommit = coalesce(c.autocommit, false), token = c.token, engine_id = CASE WHEN c.token IS NOT NULL THEN engine END,
            ready_at = c.ready_at, started_at = CASE WHEN c.token IS NOT NULL THEN at ELSE n.started_at END,
            finished_at = CASE WHEN c.status IN ('completed', 'failed', 'cancelled', 'skipped') THEN at END,
            result = c.result -> 0, result_node = c.result_node, columns = c.columns, error = c.error
        FROM json_to_recordset(nodes) AS c (
            run text, node_id integer, status text, rev bigint, attempt integer, losses integer, faults integer, autocommit boolean,
            token uuid, ready_at timestamptz, result jsonb, result_node integer, columns jsonb, error jsonb)
        WHERE n.instance_id = c.run AND n.node_id = c.node_id;
    END IF;
    IF attempts IS NOT NULL THEN
        INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, engine_id, started_at, finished_at,
                                 error, delay, delay_source, fingerprint, exactly_once)
        SELECT c.run, c.node_id, c.rev, df._me(), c.attempt, coalesce(c.outcome, 'completed'), c.token, c.engine_id, c.started_at, at,
               c.error, make_interval(secs => c.delay), c.delay_source, c.fingerprint, coalesce(c.exactly_once, false)
        FROM json_to_recordset(attempts) AS c (
            run text, node_id integer, rev bigint, attempt integer, outcome text, token uuid, engine_id text, started_at timestamptz,
            error jsonb, delay double precision, delay_source text, fingerprint text, exactly_once boolean);
    END IF;
    IF named IS NOT NULL THEN
        INSERT INTO df.values AS v (instance_id, scope, name, submitted_by, node_id, value, columns)
        SELECT c.run, '', c.name, df._me(), c.node_id, c.value -> 0, c.columns
        FROM json_to_recordset(named) AS c (run text, name text, node_id integer, value jsonb, columns jsonb)
        ON CONFLICT (instance_id, scope, name) DO UPDATE SET node_id = excluded.node_id, value = excluded.value, columns = excluded.columns;
    END IF;
    IF tell THEN
        PERFORM df._tell(df._me());
    END IF;
END $$;

-- The values of these names in a run.
CREATE OR REPLACE FUNCTION df._named(run text, names text[])
RETURNS TABLE (name text, value text, columns text)
LANGUAGE sql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT v.name, v.value::text, v.columns::text FROM df.values v
    WHERE v.instance_id = run AND v.scope = '' AND v.name = ANY (names) AND v.submitted_by = df._me()
$$;

-- This node's statement cannot run in a transaction block: committed before it is executed a second time.
CREATE OR REPLACE FUNCTION df._goes_autocommit(run text, node integer, held uuid) RETURNS boolean
LANGUAGE sql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    UPDATE df.nodes n SET autocommit = true
    WHERE n.instance_id = run AND n.node_id = node AND n.token = held AND n.status = 'running' RETURNING true
$$;
