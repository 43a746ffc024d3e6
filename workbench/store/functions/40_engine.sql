-- What an engine calls, one function a verb; claiming is in 41. Locking comes first and reading in a later statement (READ COMMITTED gives
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
                                     n.ready_at, n.started_at, n.result_node, n.error, n.iteration, n.abandoned, n.falsy, n.reused_run IS NOT NULL,
                                     n.base, n.size, coalesce(n.facts, 0)) ORDER BY n.node_id)::text
    FROM df.nodes n WHERE n.instance_id = run AND n.rev > since
$$;

-- Everything an engine needs to hold a copy of these runs; what is immutable only for those it does not hold yet.
CREATE OR REPLACE FUNCTION df._load(runs text[], known text[])
RETURNS TABLE (id text, status text, version bigint, graph text, label text, input text, vars text, database text,
               max_attempts integer, max_backoff double precision, on_failure text, nodes text, signalled boolean, reported boolean)
LANGUAGE sql STABLE ROWS 50 AS $$
    SELECT i.id, i.status, i.version, d.graph::text, d.label, d.input::text, d.vars::text, d.database,
           d.max_attempts, extract(epoch FROM d.max_backoff)::float8, d.on_failure,
           CASE WHEN i.version > 0 OR d.kind = 'resume' THEN df._node_rows(i.id, -1) END,
           EXISTS (SELECT FROM df.signals s WHERE s.instance_id = i.id),
           EXISTS (SELECT FROM df.tasks t WHERE t.instance_id = i.id AND t.report IS NOT NULL)
    FROM unnest(runs) WITH ORDINALITY AS r (id, n)
    JOIN df.instances i ON i.id = r.id AND i.submitted_by = df._me()
    JOIN df.definitions d ON d.instance_id = i.id
    WHERE i.id <> ALL (known) ORDER BY r.n
$$;

-- Locks the runs that are due, or that signals or workers' reports have arrived for, and that nobody else holds, and returns them whole.
CREATE OR REPLACE FUNCTION df._due(most integer)
RETURNS TABLE (id text, status text, version bigint, graph text, label text, input text, vars text, database text,
               max_attempts integer, max_backoff double precision, on_failure text, nodes text, signalled boolean, reported boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    locked text[];
    cutoff timestamptz := df.now();
BEGIN
    locked := ARRAY(SELECT i.id FROM df.instances i
                    WHERE i.submitted_by = df._me() AND i.wake_at <= cutoff AND i.parked IS NULL
                    ORDER BY i.wake_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
    IF EXISTS (SELECT FROM df.signals s WHERE s.is_new AND s.submitted_by = df._me()) THEN
        locked := locked || df._signalled(most - cardinality(locked), locked);
    END IF;
    IF EXISTS (SELECT FROM df.tasks t WHERE t.report IS NOT NULL AND t.submitted_by = df._me()) THEN
        locked := locked || df._reported(most - cardinality(locked), locked);
    END IF;
    IF locked <> '{}' THEN
        RETURN QUERY SELECT * FROM df._load(locked, '{}');
    END IF;
END $$;

-- Locks running runs for which there are signals that no engine has looked at.
CREATE OR REPLACE FUNCTION df._signalled(most integer, locked text[]) RETURNS text[]
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    -- They came when the run was just ending: nobody will ever look at them.
    DELETE FROM df.signals s WHERE s.is_new AND s.submitted_by = df._me()
        AND NOT EXISTS (SELECT FROM df.instances i WHERE i.id = s.instance_id AND i.status IN ('pending', 'running'));
    -- An array: of `IN (SELECT …)` the planner made a look for signals in every run that is alive.
    UPDATE df.signals s SET is_new = false FROM df.instances i
    WHERE s.is_new AND s.submitted_by = df._me() AND i.id = s.instance_id AND i.parked IS NOT NULL;
    RETURN ARRAY(SELECT i.id FROM df.instances i
                 WHERE i.id = ANY (ARRAY(SELECT DISTINCT s.instance_id FROM df.signals s
                                         WHERE s.is_new AND s.submitted_by = df._me() AND s.instance_id <> ALL (locked)))
                   AND i.submitted_by = df._me() AND i.status = 'running' AND i.parked IS NULL
                 LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
END $$;

-- Signals of runs that the caller has locked: those that are new, and the oldest few of each name that the run waits for, which
-- come with their data. `runs` and `names` are pairs.
CREATE OR REPLACE FUNCTION df._signals(locked text[], runs text[], names text[])
RETURNS TABLE (instance_id text, id bigint, name text, sent_at timestamptz, data text)
LANGUAGE sql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT u.instance_id, u.id, u.name, u.sent_at,
           CASE WHEN u.waited AND u.place <= 20 THEN (SELECT d.data::text FROM df.signals d WHERE d.id = u.id) END
    FROM (SELECT s.instance_id, s.id, s.name, s.sent_at, s.is_new, row_number() OVER (PARTITION BY s.instance_id, s.name ORDER BY s.id) AS place,
                 EXISTS (SELECT FROM unnest(runs, names) AS w (run, name) WHERE w.run = s.instance_id AND w.name = s.name) AS waited
          FROM df.signals s WHERE s.instance_id = ANY (locked)) u
    WHERE u.is_new OR (u.waited AND u.place <= 20) ORDER BY u.id
$$;

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

-- Handlers that ready nodes ask for and the caller has not yet looked for.
CREATE OR REPLACE FUNCTION df._wanted_handlers(known text[]) RETURNS SETOF text
LANGUAGE sql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT DISTINCT n.handler FROM df.nodes n
    WHERE n.status = 'ready' AND n.submitted_by = df._me() AND n.handler <> ALL (known) LIMIT 100
$$;

-- Writes transitions that workbench.engine.machine decided at one moment; the caller holds the locks of all these runs. Keys
-- that are absent mean NULL, 0 or false: most of a transition's are, and reading JSON is a large part of what it costs.
-- `tell`: something in it concerns other engines. `frees`: there is room that this engine does not need.
CREATE OR REPLACE FUNCTION df._checkpoint(
    engine text, at timestamptz, runs json, dropped json, expanded json, nodes json, attempts json, cancelled json, gathered json, named json, moved json,
    iterations json, signals json, tell boolean, frees boolean
) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    written bigint;
BEGIN
    UPDATE df.instances i
    SET status = c.status, version = c.version, error = c.error, parked = c.parked, updated_at = at,
        -- A look that was asked for, such as for a signal sent before its wait, is not forgotten over a report.
        wake_at = CASE WHEN c.woken IS NOT TRUE AND c.status = 'running' AND i.wake_at <= at THEN i.wake_at ELSE c.wake_at END,
        started_at = coalesce(i.started_at, at),
        finished_at = CASE WHEN c.status IN ('completed', 'failed', 'cancelled') THEN at END,
        idempotency_key = CASE WHEN c.status <> 'cancelled' THEN i.idempotency_key END
    FROM json_to_recordset(runs) AS c (
        id text, status text, version bigint, wake_at timestamptz, woken boolean, error jsonb, parked jsonb)
    WHERE i.id = c.id AND i.version = c.version - 1;
    GET DIAGNOSTICS written = ROW_COUNT;
    IF written <> json_array_length(runs) THEN
        RAISE EXCEPTION 'a run changed under its lock: % of % written', written, json_array_length(runs) USING ERRCODE = 'XX000';
    END IF;
    IF attempts IS NOT NULL THEN
        INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, engine_id, started_at, finished_at,
                                 error, delay, delay_source, fingerprint, exactly_once, executed, iterations, pattern, element, logs)
        SELECT c.run, c.node_id, c.rev, df._me(), c.attempt, coalesce(c.outcome, 'completed'), c.token, c.engine_id, c.started_at, at,
               c.error, make_interval(secs => c.delay), c.delay_source, c.fingerprint, coalesce(c.exactly_once, false), c.executed, c.iterations,
               c.pattern, c.element, c.logs
        FROM json_to_recordset(attempts) AS c (
            run text, node_id integer, rev bigint, attempt integer, outcome text, token uuid, engine_id text, started_at timestamptz,
            error jsonb, delay double precision, delay_source text, fingerprint text, exactly_once boolean,
            executed text, iterations integer[], pattern integer, element integer[], logs text);
    END IF;
    IF cancelled IS NOT NULL THEN
        tell := df._end_claims(at, cancelled) OR tell;
    END IF;
    IF frees AND EXISTS (SELECT FROM df.engines e WHERE e.hungry OR e.hungry_for_http) THEN
        PERFORM df._tell_hungry(engine);
    END IF;
    IF dropped IS NOT NULL THEN
        DELETE FROM df.nodes n USING json_to_recordset(dropped) AS c (run text, "from" integer, "to" integer)
        WHERE n.instance_id = c.run AND n.node_id BETWEEN c."from" AND c."to";
    END IF;
    IF expanded IS NOT NULL THEN
        PERFORM df._add_elements(expanded);
    END IF;
    IF nodes IS NOT NULL THEN
        UPDATE df.nodes n
        SET status = c.status, rev = c.rev, attempt = coalesce(c.attempt, 0), losses = coalesce(c.losses, 0), faults = coalesce(c.faults, 0),
            autocommit = coalesce(c.autocommit, false), token = c.token, engine_id = CASE WHEN c.token IS NOT NULL THEN engine END,
            ready_at = c.ready_at,
            started_at = CASE WHEN c.token IS NOT NULL THEN at WHEN c.status <> 'pending' THEN coalesce(c.started_at, n.started_at) END,
            finished_at = CASE WHEN c.status IN ('completed', 'failed', 'cancelled', 'skipped') THEN at END,
            result = CASE WHEN c.kept THEN n.result ELSE c.result -> 0 END, result_node = c.result_node,
            columns = CASE WHEN c.kept THEN n.columns ELSE c.columns END, error = c.error,
            reused_run = CASE WHEN c.status <> 'pending' THEN n.reused_run END,
            iteration = coalesce(c.iteration, 0), abandoned = coalesce(c.abandoned, 0), falsy = coalesce(c.falsy, false),
            base = c.base, size = c.size, facts = c.facts, progress = NULL
        FROM json_to_recordset(nodes) AS c (
            run text, node_id integer, status text, rev bigint, attempt integer, losses integer, faults integer, autocommit boolean,
            token uuid, ready_at timestamptz, started_at timestamptz, result jsonb, result_node integer, columns jsonb, error jsonb,
            iteration integer, abandoned integer, falsy boolean, kept boolean, base integer, size integer, facts numeric)
        WHERE n.instance_id = c.run AND n.node_id = c.node_id;
    END IF;
    IF gathered IS NOT NULL THEN
        PERFORM df._gather(gathered);
    END IF;
    IF named IS NOT NULL THEN
        INSERT INTO df.values AS v (instance_id, scope, name, submitted_by, node_id, value, columns)
        SELECT c.run, c.scope, c.name, df._me(), c.node_id, coalesce(c.value -> 0, n.result), coalesce(c.columns, n.columns)
        FROM json_to_recordset(named) AS c (run text, scope integer, name text, node_id integer, value jsonb, columns jsonb)
        JOIN df.nodes n ON n.instance_id = c.run AND n.node_id = c.node_id
        ON CONFLICT (instance_id, scope, name) DO UPDATE SET node_id = excluded.node_id, value = excluded.value, columns = excluded.columns;
    END IF;
    IF moved IS NOT NULL THEN
        PERFORM df._move_names(moved);
    END IF;
    IF expanded IS NOT NULL THEN
        PERFORM df._name_elements(expanded);
    END IF;
    IF iterations IS NOT NULL THEN
        PERFORM df._end_iterations(at, iterations);
    END IF;
    IF signals IS NOT NULL THEN
        PERFORM df._settle_signals(at, signals);
    END IF;
    IF tell THEN
        PERFORM df._tell(df._me());
    END IF;
END $$;

-- Ends the claims on nodes that are being cancelled and that the decision did not know of, because a claim changes no version.
-- Whether there were any.
CREATE OR REPLACE FUNCTION df._end_claims(at timestamptz, cancelled json) RETURNS boolean
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    unknown boolean;
BEGIN
    -- A claim needs no lock of the run: from here on there is none that the next statement would see differently.
    PERFORM FROM json_to_recordset(cancelled) AS c (run text, node_id integer)
        JOIN df.nodes n ON n.instance_id = c.run AND n.node_id = c.node_id WHERE n.status IN ('ready', 'waiting') FOR NO KEY UPDATE OF n;
    INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, engine_id, started_at, finished_at, exactly_once)
    SELECT n.instance_id, n.node_id, c.rev, n.submitted_by, n.attempt + 1, 'cancelled', n.token, n.engine_id, n.started_at, at,
           n.node_type = 'SQL' AND NOT n.autocommit
    FROM json_to_recordset(cancelled) AS c (run text, node_id integer, rev bigint)
    JOIN df.nodes n ON n.instance_id = c.run AND n.node_id = c.node_id
    WHERE n.status = 'running' AND n.token IS NOT NULL
    ON CONFLICT DO NOTHING;  -- those that the decision knew of
    unknown := FOUND;
    INSERT INTO df.releasing (token, instance_id, submitted_by, engine_id, gate)
    SELECT n.token, n.instance_id, n.submitted_by, n.engine_id, n.gate
    FROM json_to_recordset(cancelled) AS c (run text, node_id integer)
    JOIN df.nodes n ON n.instance_id = c.run AND n.node_id = c.node_id
    WHERE n.status = 'running' AND n.token IS NOT NULL AND n.engine_id IS NOT NULL;
    DELETE FROM df.tasks t USING json_to_recordset(cancelled) AS c (run text, node_id integer)
    WHERE t.instance_id = c.run AND t.node_id = c.node_id AND t.token IS NULL;
    RETURN unknown;
END $$;

-- The nodes of a MAP's elements, as its pattern has them; ready where that is all that has happened to them (`ready_at`).
CREATE OR REPLACE FUNCTION df._add_elements(expanded json) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type, handler, gate, max_attempts, status, rev, ready_at, pattern, element)
    SELECT c.run, c.base + e.index * c.stride + p.node_id - c.node_id - 1, p.submitted_by, p.node_type, p.handler, p.gate, p.max_attempts,
           CASE WHEN p.node_id - c.node_id = ANY (c."inner") THEN 'pattern' WHEN c.ready_at IS NULL THEN 'pending' ELSE 'ready' END, c.rev, c.ready_at,
           coalesce(p.pattern, p.node_id), coalesce(m.element, '{}') || e.index
    FROM json_to_recordset(expanded) AS c (run text, node_id integer, base integer, size integer, stride integer, "inner" integer[], rev bigint,
                                             ready_at timestamptz)
    CROSS JOIN LATERAL generate_series(0, c.size - 1) AS e (index)
    JOIN df.nodes m ON m.instance_id = c.run AND m.node_id = c.node_id
    JOIN df.nodes p ON p.instance_id = c.run AND p.node_id BETWEEN c.node_id + 1 AND c.node_id + c.stride
    ON CONFLICT DO NOTHING  -- those that a resumed run has had from its beginning
$$;

-- What the body of a MAP calls its element, in the scope of each.
CREATE OR REPLACE FUNCTION df._name_elements(expanded json) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    item record;
    list jsonb;
BEGIN
    FOR item IN SELECT * FROM json_to_recordset(expanded) AS c (
            run text, node_id integer, base integer, size integer, stride integer, over text, "as" text, scopes integer[]) LOOP
        list := df._elements(CASE item.over
            WHEN 'input' THEN (SELECT d.input FROM df.definitions d WHERE d.instance_id = item.run)
            ELSE (SELECT n.value::jsonb FROM df._named(item.run, item.scopes, ARRAY[item.over]) n) END);
        IF jsonb_array_length(list) IS DISTINCT FROM item.size THEN
            RAISE EXCEPTION 'MAP #% goes over % elements, not %', item.node_id, jsonb_array_length(list), item.size USING ERRCODE = 'XX000';
        END IF;
        INSERT INTO df.values AS v (instance_id, scope, name, submitted_by, node_id, value)
        SELECT item.run, item.base + (e.n - 1) * item.stride, item."as", df._me(), item.node_id, e.value
        FROM jsonb_array_elements(list) WITH ORDINALITY AS e (value, n)
        ON CONFLICT (instance_id, scope, name) DO UPDATE SET node_id = excluded.node_id, value = excluded.value, columns = NULL;
    END LOOP;
END $$;

-- What a MAP over this value goes over: the rows of a SQL result, or the elements of a list; else NULL.
CREATE OR REPLACE FUNCTION df._elements(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE jsonb_typeof(value) WHEN 'array' THEN value
        WHEN 'object' THEN CASE WHEN jsonb_typeof(value -> 'rows') = 'array' AND value - '{rows,row_count}'::text[] = '{}' THEN value -> 'rows' END END
$$;

-- A JOIN's or MAP's value is the array of its parts' values, a FLOW's the object of those of its last steps; of an element that
-- failed, its error. Inner ones come first.
CREATE OR REPLACE FUNCTION df._gather(gathered json) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    item record;
    value jsonb;
BEGIN
    FOR item IN SELECT * FROM json_to_recordset(gathered) AS c (run text, node_id integer, sources integer[], names text[]) LOOP
        SELECT CASE WHEN item.names IS NULL THEN jsonb_agg(CASE n.status WHEN 'failed' THEN n.error ELSE n.result END ORDER BY s.place)
               ELSE jsonb_object_agg(s.name, n.result) FILTER (WHERE s.name IS NOT NULL) END INTO value
        FROM unnest(item.sources, item.names) WITH ORDINALITY AS s (node_id, name, place)
        JOIN df.nodes n ON n.instance_id = item.run AND n.node_id = s.node_id;
        IF pg_column_size(value) > 16777216 THEN
            RAISE EXCEPTION 'the results of the parts of % #% are larger than 16 MiB together. Return less, or write to a table.',
                (SELECT n.node_type FROM df.nodes n WHERE n.instance_id = item.run AND n.node_id = item.node_id), item.node_id
                USING ERRCODE = '54000';
        END IF;
        UPDATE df.nodes n SET result = value WHERE n.instance_id = item.run AND n.node_id = item.node_id;
    END LOOP;
END $$;

-- Names that are set, moved out of a branch, or forgotten, one after the other.
CREATE OR REPLACE FUNCTION df._move_names(moved json) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT * FROM json_to_recordset(moved) AS c (
            run text, scope integer, name text, node_id integer, value jsonb, columns jsonb, "from" integer, "to" integer) LOOP
        IF item.name IS NOT NULL THEN
            INSERT INTO df.values AS v (instance_id, scope, name, submitted_by, node_id, value, columns)
            SELECT item.run, item.scope, item.name, df._me(), item.node_id,
                   coalesce(item.value -> 0, n.result), coalesce(item.columns, n.columns)
            FROM df.nodes n WHERE n.instance_id = item.run AND n.node_id = item.node_id
            ON CONFLICT (instance_id, scope, name) DO UPDATE SET node_id = excluded.node_id, value = excluded.value, columns = excluded.columns;
        ELSIF item.scope IS NOT NULL THEN
            INSERT INTO df.values AS v (instance_id, scope, name, submitted_by, node_id, value, columns)
            SELECT item.run, item.scope, b.name, b.submitted_by, b.node_id, b.value, b.columns
            FROM df.values b WHERE b.instance_id = item.run AND b.scope = item."from"
            ON CONFLICT (instance_id, scope, name) DO UPDATE SET node_id = excluded.node_id, value = excluded.value, columns = excluded.columns;
            DELETE FROM df.values v WHERE v.instance_id = item.run AND v.scope = item."from";
        ELSE
            DELETE FROM df.values v WHERE v.instance_id = item.run AND v.scope BETWEEN item."from" AND item."to";
        END IF;
    END LOOP;
END $$;

-- Remembers iterations that another one follows, a hundred of each loop; the attempts of those that fall out go with them.
CREATE OR REPLACE FUNCTION df._end_iterations(at timestamptz, iterations json) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT * FROM json_to_recordset(iterations) AS c (
            run text, node_id integer, last_node integer, iteration integer, rev bigint, started_at timestamptz, error jsonb) LOOP
        -- Not each time: what is deleted is looked for among all that is kept.
        IF item.iteration % 20 = 0 AND item.iteration > 100 THEN
            DELETE FROM df.attempts a
            WHERE a.instance_id = item.run AND a.node_id BETWEEN item.node_id + 1 AND item.last_node
              AND a.rev <= (SELECT i.last_rev FROM df.iterations i
                            WHERE i.instance_id = item.run AND i.node_id = item.node_id AND i.slot = item.iteration % 100);
        END IF;
        INSERT INTO df.iterations AS i (instance_id, node_id, slot, submitted_by, iteration, first_rev, last_rev, started_at, finished_at, error)
        VALUES (item.run, item.node_id, item.iteration % 100, df._me(), item.iteration,
                coalesce((SELECT p.last_rev FROM df.iterations p
                          WHERE p.instance_id = item.run AND p.node_id = item.node_id AND p.slot = (item.iteration - 1) % 100
                            AND p.iteration = item.iteration - 1), 0),
                item.rev, item.started_at, at, item.error)
        ON CONFLICT (instance_id, node_id, slot) DO UPDATE
        SET iteration = excluded.iteration, first_rev = excluded.first_rev, last_rev = excluded.last_rev,
            started_at = excluded.started_at, finished_at = excluded.finished_at, error = excluded.error;
    END LOOP;
END $$;

-- Signals that waits took, and those that none did; a run in which a wait has begun is due when it may have been sent before.
CREATE OR REPLACE FUNCTION df._settle_signals(at timestamptz, signals json) RETURNS void
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT * FROM json_to_recordset(signals) AS c (run text, taken bigint[], looked_at bigint[], listens boolean) LOOP
        DELETE FROM df.signals s WHERE s.id = ANY (item.taken);
        UPDATE df.signals s SET is_new = false WHERE s.id = ANY (item.looked_at) AND s.is_new;
        UPDATE df.instances i SET wake_at = at
        WHERE item.listens AND i.id = item.run AND i.status = 'running' AND EXISTS (SELECT FROM df.signals s WHERE s.instance_id = item.run);
    END LOOP;
END $$;

-- What these names mean in a run, by the innermost of `scopes` that knows each.
CREATE OR REPLACE FUNCTION df._named(run text, scopes integer[], names text[])
RETURNS TABLE (name text, value text, columns text)
LANGUAGE sql STABLE SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    -- OFFSET 0: each by the whole key, where the planner would read all that the run has named.
    SELECT DISTINCT ON (v.name) v.name, v.value::text, v.columns::text
    FROM unnest(scopes) WITH ORDINALITY AS s (scope, distance) CROSS JOIN unnest(names) AS n (name)
    CROSS JOIN LATERAL (SELECT * FROM df.values v WHERE v.instance_id = run AND v.scope = s.scope AND v.name = n.name
                        AND v.submitted_by = df._me() OFFSET 0) v
    ORDER BY v.name, s.distance
$$;

-- What running handlers say of themselves, as long as the attempts are current. Takes no lock of a run, and is no transition.
CREATE OR REPLACE FUNCTION df._note_progress(said json) RETURNS void
LANGUAGE sql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    UPDATE df.nodes n SET progress = jsonb_build_object('fraction', c.fraction, 'note', c.note)
    FROM json_to_recordset(said) AS c (run text, node_id integer, token uuid, fraction double precision, note text)
    WHERE n.instance_id = c.run AND n.node_id = c.node_id AND n.token = c.token AND n.status = 'running' AND n.submitted_by = df._me()
$$;

-- This node's statement cannot run in a transaction block: committed before it is executed a second time.
CREATE OR REPLACE FUNCTION df._goes_autocommit(run text, node integer, held uuid) RETURNS boolean
LANGUAGE sql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    UPDATE df.nodes n SET autocommit = true
    WHERE n.instance_id = run AND n.node_id = node AND n.token = held AND n.status = 'running' RETURNING true
$$;
