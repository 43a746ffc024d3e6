-- Admission: which ready leaves an engine may claim. A permit is a running attempt of a living engine, or one that was cancelled
-- and whose engine has not confirmed its end. What is refused is not written: it stays ready, in its line.

-- The lock of admission, until the transaction ends: taken first, counted under in a later statement.
CREATE OR REPLACE FUNCTION df._gate() RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(df._lock_class(), 0) $$;

-- Permits in use over all roles, and the ceilings. Runs with its owner's eyes, and tells nothing but numbers.
CREATE OR REPLACE FUNCTION df._in_use(OUT activity integer, OUT http integer, OUT most_activity integer, OUT most_http integer)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, df, pg_temp AS $$
    WITH living AS (
        SELECT e.id, e.max_activity, e.max_http FROM df.engines e WHERE e.stopped_at IS NULL AND e.died_at IS NULL
    ), permits AS (
        SELECT n.gate FROM living l JOIN df.nodes n ON n.engine_id = l.id WHERE n.status = 'running' AND n.token IS NOT NULL
        UNION ALL SELECT r.gate FROM living l JOIN df.releasing r ON r.engine_id = l.id
        UNION ALL SELECT NULL FROM df.tasks t WHERE t.token IS NOT NULL AND t.report IS NULL AND t.lease_until > clock_timestamp()
    )
    SELECT (SELECT count(*) FROM permits), (SELECT count(*) FROM permits p WHERE p.gate IS NOT NULL),
           (SELECT min(l.max_activity) FROM living l), (SELECT min(l.max_http) FROM living l)
$$;

-- Claims ready leaves, oldest first: one token each, drawn by the engine beforehand. Nothing is locked but the rows taken.
-- At most one suspect (a node that was lost before) runs on an engine at a time, so that a step which kills its worker
-- takes no others with it twice. The last row, without a run, says whether a ceiling or a scope has kept others back.
CREATE OR REPLACE FUNCTION df._claim(engine text, tokens uuid[], handlers text[], suspect boolean, since timestamptz)
RETURNS TABLE (instance_id text, node_id integer, token uuid, rev bigint, ready_at timestamptz, is_suspect boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    cutoff timestamptz := df.now();
    asked integer := cardinality(tokens);
    free integer := asked;
    free_http integer := 0;
    http_waits boolean;
    alone boolean;
    held boolean;
    refused boolean;
    claimed_http integer := 0;
    used record;
    taken record;
    suspected record;
    claimed integer := 0;
BEGIN
    IF NOT df._alive(engine) THEN
        RETURN;
    END IF;
    http_waits := df._http_waits(cutoff);
    alone := df._is_alone(engine);
    IF http_waits OR NOT alone THEN
        PERFORM df._gate();
        IF df._must_wait(engine) THEN
            RETURN QUERY SELECT NULL::text, NULL::integer, NULL::uuid, NULL::bigint, NULL::timestamptz, true;
            RETURN;
        END IF;
        SELECT * INTO used FROM df._in_use();
        free := least(asked, used.most_activity - used.activity, df._fair_share(engine, used.most_activity));
        free_http := used.most_http - used.http;
    END IF;
    IF suspect AND free > 0 THEN
        SELECT n.instance_id, n.node_id INTO suspected FROM df.nodes n
        WHERE n.status = 'ready' AND n.gate IS NULL AND n.losses > 0 AND n.submitted_by = df._me()
          AND n.ready_at <= cutoff AND n.ready_at >= since AND (n.handler IS NULL OR n.handler = ANY (handlers))
        ORDER BY n.ready_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    SELECT array_agg(r.instance_id) AS runs, array_agg(r.node_id) AS nodes INTO taken FROM (
        SELECT n.instance_id, n.node_id FROM df.nodes n
        WHERE n.status = 'ready' AND n.gate IS NULL AND n.losses = 0 AND n.submitted_by = df._me()
          AND n.ready_at <= cutoff AND n.ready_at >= since AND (n.handler IS NULL OR n.handler = ANY (handlers))
        ORDER BY n.ready_at LIMIT greatest(0, free - (suspected IS NOT NULL)::integer) FOR NO KEY UPDATE SKIP LOCKED) AS r;
    IF suspected IS NOT NULL THEN
        taken.runs := suspected.instance_id || taken.runs;
        taken.nodes := suspected.node_id || taken.nodes;
    END IF;
    IF taken.runs IS NOT NULL THEN
        claimed := cardinality(taken.runs);
        RETURN QUERY
            UPDATE df.nodes n SET status = 'running', token = t.token, engine_id = engine, started_at = cutoff
            FROM unnest(taken.runs, taken.nodes, tokens) AS t (instance_id, node_id, token)
            WHERE n.instance_id = t.instance_id AND n.node_id = t.node_id
            RETURNING n.instance_id, n.node_id, n.token, n.rev, n.ready_at, n.losses > 0;
    END IF;
    -- What others leave free.
    IF http_waits AND least(free_http, free - claimed) > 0 THEN
        RETURN QUERY SELECT h.* FROM df._claim_http(
            engine, tokens[claimed + 1:claimed + least(free_http, free - claimed)], suspect AND suspected IS NULL, cutoff) h;
        GET DIAGNOSTICS claimed_http = ROW_COUNT;
        http_waits := df._http_waits(cutoff);
    END IF;
    refused := free < asked AND claimed >= free AND EXISTS (
        SELECT FROM df.nodes n WHERE n.status = 'ready' AND n.gate IS NULL AND n.submitted_by = df._me()
            AND n.ready_at <= cutoff AND (n.handler IS NULL OR n.handler = ANY (handlers)));
    held := http_waits OR refused;
    IF NOT alone THEN
        -- A scope that is full is nobody else's business.
        UPDATE df.engines e SET hungry = refused, hungry_for_http = http_waits AND free_http <= claimed_http
        WHERE e.id = engine AND (e.hungry, e.hungry_for_http) IS DISTINCT FROM (refused, http_waits AND free_http <= claimed_http);
    END IF;
    IF held THEN
        RETURN QUERY SELECT NULL::text, NULL::integer, NULL::uuid, NULL::bigint, NULL::timestamptz, true;
    END IF;
END $$;

-- How many more leaves an engine may claim while others are kept from claiming: what is its own share, and no more.
CREATE OR REPLACE FUNCTION df._fair_share(engine text, most integer) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN h.others > 0 THEN
        ceil(most::numeric / (h.others + 1))::integer
        - (SELECT count(*)::integer FROM df.nodes n WHERE n.status = 'running' AND n.token IS NOT NULL AND n.engine_id = engine) END
    FROM (SELECT count(*) AS others FROM df.engines e
          WHERE e.hungry AND e.id <> engine AND e.stopped_at IS NULL AND e.died_at IS NULL) h
$$;

CREATE OR REPLACE FUNCTION df._http_waits(cutoff timestamptz) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM df.nodes n WHERE n.status = 'ready' AND n.gate = -1 AND n.submitted_by = df._me() AND n.ready_at <= cutoff)
        OR EXISTS (SELECT FROM df.nodes n WHERE n.status = 'ready' AND n.gate >= 0 AND n.submitted_by = df._me() AND n.ready_at <= cutoff)
$$;

-- Whether no other engine of any role lives.
CREATE OR REPLACE FUNCTION df._is_alone(engine text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT NOT EXISTS (SELECT FROM df.engines e WHERE e.id <> engine AND e.stopped_at IS NULL AND e.died_at IS NULL) AND NOT df._has_leases()
$$;

-- A newcomer waits until those who keep the ceiling by themselves know of it, unless they do not stir.
CREATE OR REPLACE FUNCTION df._must_wait(engine text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM df.engines e JOIN df.engines me ON me.id = engine
                   WHERE e.id <> engine AND e.alone AND e.stopped_at IS NULL AND e.died_at IS NULL
                     AND me.started_at > clock_timestamp() - interval '2 seconds')
$$;

-- Claims HTTP leaves of the caller's, up to as many as there are tokens; the gate is held. Those without a scope and those with
-- one stand in different lines; by lot, one or the other is served first.
CREATE OR REPLACE FUNCTION df._claim_http(engine text, tokens uuid[], suspect boolean, cutoff timestamptz)
RETURNS TABLE (instance_id text, node_id integer, token uuid, rev bigint, ready_at timestamptz, is_suspect boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    scoped_first boolean := random() < 0.5;
    chosen record;
    claimed integer := 0;
BEGIN
    FOR chosen IN
        SELECT * FROM df._scoped_leaves(cardinality(tokens), suspect, cutoff) WHERE scoped_first
        UNION ALL SELECT * FROM df._free_leaves(cardinality(tokens), suspect, cutoff)
        UNION ALL SELECT * FROM df._scoped_leaves(cardinality(tokens), suspect, cutoff) WHERE NOT scoped_first
    LOOP
        EXIT WHEN claimed = cardinality(tokens);
        claimed := claimed + 1;
        RETURN QUERY
            UPDATE df.nodes n SET status = 'running', token = tokens[claimed], engine_id = engine, started_at = cutoff
            WHERE n.instance_id = chosen.run AND n.node_id = chosen.node AND n.status = 'ready'
            RETURNING n.instance_id, n.node_id, n.token, n.rev, n.ready_at, n.losses > 0;
    END LOOP;
END $$;

-- HTTP leaves that no scope limits.
CREATE OR REPLACE FUNCTION df._free_leaves(most integer, suspect boolean, cutoff timestamptz) RETURNS TABLE (run text, node integer)
LANGUAGE sql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
    SELECT n.instance_id, n.node_id FROM df.nodes n
    WHERE n.status = 'ready' AND n.gate = -1 AND n.submitted_by = df._me() AND n.ready_at <= cutoff AND (suspect OR n.losses = 0)
    ORDER BY n.ready_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED
$$;

-- HTTP leaves in scopes that have room, the oldest of each run first. Runs take turns: the search begins at a random one.
CREATE OR REPLACE FUNCTION df._scoped_leaves(most integer, suspect boolean, cutoff timestamptz) RETURNS TABLE (run text, node integer)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    first text := left(md5(random()::text), 8);
    wrapped boolean := false;
    found_node integer;
    found_gate integer;
    nodes integer[];  -- of this run, that are about to be claimed, and their gates
    gates integer[];
    given integer := 0;
BEGIN
    run := first;
    WHILE given < most LOOP
        SELECT n.instance_id INTO run FROM df.nodes n
        WHERE n.status = 'ready' AND n.gate >= 0 AND n.submitted_by = df._me() AND n.instance_id > run
        ORDER BY n.instance_id LIMIT 1;
        IF run IS NULL OR (wrapped AND run > first) THEN
            EXIT WHEN wrapped OR run IS NOT NULL;
            wrapped := true;
            run := '';
            CONTINUE;
        END IF;
        nodes := '{}';
        gates := '{}';
        WHILE given < most LOOP
            SELECT h.node_id, s.node_id INTO found_node, found_gate
            FROM df.scopes s CROSS JOIN LATERAL (
                SELECT n.node_id, n.ready_at FROM df.nodes n
                -- `gate >= 0` is what the index says: without it the whole run is read and sorted for each leaf.
                WHERE n.status = 'ready' AND n.gate >= 0 AND n.submitted_by = df._me() AND n.instance_id = run AND n.gate = s.node_id
                  AND n.ready_at <= cutoff AND (suspect OR n.losses = 0) AND n.node_id <> ALL (nodes)
                ORDER BY n.ready_at, n.node_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) h
            WHERE s.instance_id = run AND df._scope_room(run, s.node_id, gates) > 0
            ORDER BY h.ready_at, h.node_id LIMIT 1;
            EXIT WHEN found_node IS NULL;
            nodes := nodes || found_node;
            gates := gates || found_gate;
            given := given + 1;
            node := found_node;
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;

-- How many more requests the scopes around a gate allow: the tightest decides. `more` are gates that are about to be passed.
CREATE OR REPLACE FUNCTION df._scope_room(run text, gate integer, more integer[]) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT min(s.max_concurrency - df._scope_in_use(run, s.node_id, s.last_node)
               - (SELECT count(*) FROM unnest(more) AS m (gate) WHERE m.gate BETWEEN s.node_id AND s.last_node))
    FROM df.scopes s WHERE s.instance_id = run AND $2 BETWEEN s.node_id AND s.last_node
$$;

-- Permits held in a scope, those of inner ones included.
CREATE OR REPLACE FUNCTION df._scope_in_use(run text, first integer, last integer) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM (
        SELECT n.engine_id FROM df.nodes n
        WHERE n.instance_id = run AND n.status = 'running' AND n.token IS NOT NULL AND n.gate BETWEEN first AND last
        UNION ALL SELECT r.engine_id FROM df.releasing r WHERE r.instance_id = run AND r.gate BETWEEN first AND last
    ) p JOIN df.engines e ON e.id = p.engine_id AND e.stopped_at IS NULL AND e.died_at IS NULL
$$;

-- What a round has to know beside what it claims: the clock, when something is next due, and whether a leaf has waited so long
-- for room that those just made ready must stand in line behind it.
CREATE OR REPLACE FUNCTION df._survey(handlers text[], OUT at text, OUT next_due double precision, OUT waits boolean)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    cutoff timestamptz := df.now();
BEGIN
    at := to_json(cutoff) #>> '{}';
    next_due := extract(epoch FROM least(
        (SELECT min(i.wake_at) FROM df.instances i WHERE i.submitted_by = df._me() AND i.wake_at > cutoff),
        (SELECT min(n.ready_at) FROM df.nodes n WHERE n.status = 'ready' AND n.gate IS NULL AND n.submitted_by = df._me() AND n.ready_at > cutoff),
        (SELECT min(n.ready_at) FROM df.nodes n WHERE n.status = 'ready' AND n.gate = -1 AND n.submitted_by = df._me() AND n.ready_at > cutoff)) - cutoff);
    waits := EXISTS (SELECT FROM df.nodes n
                     WHERE n.status = 'ready' AND n.gate IS NULL AND n.losses = 0 AND n.submitted_by = df._me()
                       AND n.ready_at < cutoff - interval '2 seconds' AND (n.handler IS NULL OR n.handler = ANY (handlers)));
END $$;

-- Cancelled attempts of the caller's engines have come to their end: what they held is free.
CREATE OR REPLACE FUNCTION df._released(engine text, ended uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM df.releasing r WHERE r.token = ANY (ended) AND r.submitted_by = df._me();
    IF EXISTS (SELECT FROM df.engines e WHERE e.hungry OR e.hungry_for_http) THEN
        PERFORM df._tell_hungry(engine);
    END IF;
END $$;

-- What the engine has still to confirm.
CREATE OR REPLACE FUNCTION df._releasing(engine text) RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$ SELECT r.token FROM df.releasing r WHERE r.engine_id = engine AND r.submitted_by = df._me() $$;

-- Wakes the engines that a ceiling keeps from claiming. NOTIFY makes commits wait for each other: only when there are any.
CREATE OR REPLACE FUNCTION df._tell_hungry(engine text) RETURNS void
LANGUAGE sql AS $$
    SELECT df._tell(e.role) FROM df.engines e
    WHERE (e.hungry OR e.hungry_for_http) AND e.id <> engine AND e.stopped_at IS NULL AND e.died_at IS NULL GROUP BY e.role
$$;
