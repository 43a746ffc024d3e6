-- Reading for people: runs, their nodes with what the graph says about each, attempts. Nothing here is on an engine's path and
-- nothing is written. Row security decides what is seen: a role's own runs, everything for a superuser.
-- Column order is that of the dataclasses in workbench/store/records.py, which read them by name.

CREATE OR REPLACE FUNCTION df._run(run text)
RETURNS TABLE (
    run_id text, label text, status text, version bigint, submitted_by text, database text,
    max_attempts integer, max_backoff double precision, on_failure text,
    created_at timestamptz, started_at timestamptz, finished_at timestamptz, updated_at timestamptz, wake_at timestamptz,
    error jsonb, parked jsonb, restart_of_run_id text, kind text, idempotency_key text, input_preview text,
    live_engines integer, missing_handlers text[], attempts bigint, as_of timestamptz, flow text, flow_version integer)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT i.id, d.label, i.status, i.version, i.submitted_by::text, d.database,
           d.max_attempts, extract(epoch FROM d.max_backoff)::float8, d.on_failure,
           i.created_at, i.started_at, i.finished_at, i.updated_at, i.wake_at,
           i.error, i.parked, i.restart_of_run_id, d.kind, i.idempotency_key, left(d.input::text, 2048),
           df._live_engines(i.submitted_by), df._missing_handlers(i.id),
           (SELECT count(*) FROM df.attempts a WHERE a.instance_id = i.id), df.now(), d.flow, d.flow_version
    FROM df.instances i JOIN df.definitions d ON d.instance_id = i.id WHERE i.id = $1
$$;

-- Engines of a role that hold their lock and have been heard of lately; the same two signs of life that engines go by.
CREATE OR REPLACE FUNCTION df._live_engines(role regrole) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT count(*)::integer FROM df.engines e
    WHERE e.role = $1 AND e.stopped_at IS NULL AND e.died_at IS NULL
      AND e.last_seen_at > clock_timestamp() - make_interval(secs => (df._setting('heartbeat_limit') #>> '{}')::float8)
      AND df._lock_held(e.lock_key, e.backend_pid)
$$;

-- Handlers that ready steps of a run have been waiting for, and that no living engine says it has. Engines look for what is
-- asked for several times a second and say so with their next heartbeat: within 3 seconds, if they find it.
CREATE OR REPLACE FUNCTION df._missing_handlers(run text) RETURNS text[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(DISTINCT n.handler), '{}') FROM df.nodes n
    WHERE n.instance_id = run AND n.status = 'ready' AND n.handler IS NOT NULL AND n.ready_at < df.now() - interval '3 seconds'
      AND NOT EXISTS (SELECT FROM df.engines e
                      WHERE e.role = n.submitted_by AND e.stopped_at IS NULL AND e.died_at IS NULL AND n.handler = ANY (e.handlers))
$$;

-- Every node in pre-order. A composite's own row names the node whose value it has, and previews nothing.
CREATE OR REPLACE FUNCTION df._run_nodes(run text)
RETURNS TABLE (
    node_id integer, parent_id integer, ord integer, depth integer, node_type text, query text, result_name text, handler text,
    status text, attempt integer, losses integer, ready_at timestamptz, started_at timestamptz, finished_at timestamptz,
    error jsonb, result_node integer, result_preview text, row_count bigint, result_bytes bigint, columns jsonb,
    engine_id text, exactly_once boolean, iteration integer, abandoned integer, options jsonb, reused_run text, reused_node integer,
    element integer[], size integer, progress jsonb)
LANGUAGE sql STABLE AS $$
    SELECT w.node_id, w.parent_id, w.ord, w.depth, n.node_type, w.node ->> 'query', w.node ->> 'result_name', n.handler,
           CASE n.status WHEN 'pattern' THEN 'pending' ELSE n.status END, n.attempt, n.losses, n.ready_at, n.started_at, n.finished_at,
           n.error, n.result_node, df._preview(n.result, r.text), df._row_count(n.result), octet_length(r.text)::bigint, n.columns,
           n.engine_id, n.node_type = 'SQL' AND NOT n.autocommit, n.iteration, n.abandoned, w.node -> 'options',
           n.reused_run, n.reused_node, n.element, n.size, n.progress
    FROM df._nodes_of($1) w JOIN df.nodes n ON n.instance_id = $1 AND n.node_id = w.node_id
    CROSS JOIN LATERAL (SELECT n.result::text AS text OFFSET 0) r  -- once: results may be large
    ORDER BY w.place
$$;

-- The nodes of a run, those of its graph and the elements of its MAPs, in the order of `place`: pre-order. The body of a MAP is
-- there only as long as the elements that are like it are not.
CREATE OR REPLACE FUNCTION df._nodes_of(run text)
RETURNS TABLE (node_id integer, parent_id integer, ord integer, depth integer, place integer[], node jsonb, origin integer)
LANGUAGE sql STABLE AS $$
    SELECT w.node_id, w.parent_id, w.ord, w.depth, ARRAY[w.node_id], w.node, w.node_id
    FROM df.definitions d
    CROSS JOIN LATERAL (SELECT ARRAY(SELECT DISTINCT n.pattern FROM df.nodes n WHERE n.instance_id = run AND n.pattern IS NOT NULL) AS patterns OFFSET 0) e
    CROSS JOIN LATERAL df._walk(d.graph::jsonb) w
    WHERE d.instance_id = run AND w.node_id <> ALL (e.patterns)
    UNION ALL
    SELECT * FROM df._elements_of(run)
$$;

CREATE OR REPLACE FUNCTION df._elements_of(run text)
RETURNS TABLE (node_id integer, parent_id integer, ord integer, depth integer, place integer[], node jsonb, origin integer)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM df.definitions d WHERE d.instance_id = run AND strpos(d.graph::text, '"MAP"') > 0) THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH walk AS MATERIALIZED (
        SELECT w.* FROM df.definitions d CROSS JOIN LATERAL df._walk(d.graph::jsonb) w WHERE d.instance_id = run
    ), maps AS MATERIALIZED (
        SELECT w.node_id, (SELECT min(v.node_id) FROM walk v WHERE v.node_id > w.node_id AND v.depth <= w.depth) AS behind
        FROM walk w WHERE w.node ->> 'node_type' = 'MAP'
    ), inside AS MATERIALIZED (
        SELECT w.node_id, array_agg(m.node_id ORDER BY m.node_id) AS maps
        FROM walk w JOIN maps m ON m.node_id < w.node_id AND (m.behind IS NULL OR w.node_id < m.behind) GROUP BY w.node_id
    ), expanded AS MATERIALIZED (  -- few, and found by their place; what else stands above a node is as far from it as in the graph
        SELECT m.node_id, coalesce(m.pattern, m.node_id) AS origin, coalesce(m.element, '{}') AS element
        FROM df.nodes m WHERE m.instance_id = run AND m.node_type = 'MAP' AND m.base IS NOT NULL
    )
    SELECT n.node_id, CASE WHEN e.is_root THEN m.node_id ELSE n.node_id - w.node_id + w.parent_id END,
           CASE WHEN e.is_root THEN n.element[cardinality(n.element)] + 1 ELSE w.ord END, w.depth,
           (SELECT array_agg(v.number ORDER BY u.level, v.second)
            FROM unnest(i.maps, n.element) WITH ORDINALITY AS u (map, index, level)
            CROSS JOIN LATERAL (VALUES (u.map, 1), (u.index, 2)) AS v (number, second)) || w.node_id,
           CASE WHEN e.is_root AND o.node IS NOT NULL  -- an element is called after its map
               THEN jsonb_build_object('result_name', format('%s[%s]', o.node ->> 'result_name', n.element[cardinality(n.element)])) || w.node
               ELSE w.node END, w.node_id
    FROM df.nodes n JOIN walk w ON w.node_id = n.pattern JOIN inside i ON i.node_id = n.pattern
    CROSS JOIN LATERAL (SELECT w.parent_id = i.maps[cardinality(i.maps)] AS is_root) AS e
    LEFT JOIN walk o ON o.node_id = w.parent_id AND o.node ->> 'result_name' IS NOT NULL
    LEFT JOIN expanded m ON e.is_root AND m.origin = w.parent_id AND m.element = n.element[:cardinality(n.element) - 1]
    WHERE n.instance_id = run AND n.status <> 'pattern';
END $$;

-- At most about 2 kB of a result: the whole, or a row set of the first rows that fit, or the beginning of its text.
CREATE OR REPLACE FUNCTION df._preview(result jsonb, text text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(text) <= 2048 THEN text
                WHEN jsonb_typeof(result) = 'object' AND jsonb_typeof(result -> 'rows') = 'array' THEN coalesce(
                    (SELECT '{"rows": [' || string_agg(f.text, ', ' ORDER BY f.n) || ']}' FROM (
                         SELECT e.n, e.row::text AS text, sum(length(e.row::text)) OVER (ORDER BY e.n) AS so_far
                         FROM jsonb_array_elements(jsonb_path_query_array(result, '$.rows[0 to 19]')) WITH ORDINALITY AS e (row, n)
                     ) f WHERE f.so_far <= 2000), left(text, 2048))
                ELSE left(text, 2048) END
$$;

-- Rows of a row set, elements of a list.
CREATE OR REPLACE FUNCTION df._row_count(result jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE jsonb_typeof(result)
               WHEN 'array' THEN jsonb_array_length(result)::bigint
               WHEN 'object' THEN CASE WHEN jsonb_typeof(result -> 'rows') = 'array' THEN jsonb_array_length(result -> 'rows')::bigint END
           END
$$;

-- The attempts that have ended, or the last so many of them, in the order of their ends; `delay` in seconds.
CREATE OR REPLACE FUNCTION df._run_attempts(run text, most bigint)
RETURNS TABLE (
    node_id integer, rev bigint, attempt integer, outcome text, started_at timestamptz, finished_at timestamptz,
    error jsonb, delay double precision, delay_source text, engine_id text, host text, pid integer,
    fingerprint text, exactly_once boolean)
LANGUAGE sql STABLE AS $$
    SELECT a.node_id, a.rev, a.attempt, a.outcome, a.started_at, a.finished_at,
           a.error, extract(epoch FROM a.delay)::float8, a.delay_source, a.engine_id, e.host, e.pid,
           a.fingerprint, a.exactly_once
    FROM (SELECT * FROM df.attempts a WHERE a.instance_id = $1 ORDER BY a.rev DESC, a.node_id DESC LIMIT $2) a
    LEFT JOIN df.engines e ON e.id = a.engine_id
    ORDER BY a.rev, a.node_id
$$;

-- The last so many ended iterations of each loop of a run, in the order of their ends.
CREATE OR REPLACE FUNCTION df._run_iterations(run text, most integer)
RETURNS TABLE (node_id integer, iteration integer, started_at timestamptz, finished_at timestamptz, error jsonb)
LANGUAGE sql STABLE AS $$
    SELECT i.node_id, i.iteration, i.started_at, i.finished_at, i.error
    FROM (SELECT i.*, row_number() OVER (PARTITION BY i.node_id ORDER BY i.last_rev DESC) AS back
          FROM df.iterations i WHERE i.instance_id = $1) i
    WHERE i.back <= $2 ORDER BY i.last_rev, i.node_id
$$;

-- Signals that no wait of a run has taken yet, by name.
CREATE OR REPLACE FUNCTION df._unread_signals(run text)
RETURNS TABLE (name text, unread bigint, first_sent_at timestamptz, last_sent_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT s.name, count(*), min(s.sent_at), max(s.sent_at) FROM df.signals s WHERE s.instance_id = $1 GROUP BY s.name ORDER BY s.name
$$;

-- Runs, newest first. `steps` counts leaves. Of a running one: `retrying` when a step waits for its next attempt and none runs,
-- `waiting` when all that is alive waits for a time or a signal.
CREATE OR REPLACE FUNCTION df._runs(status text, label text, since timestamptz, most integer)
RETURNS TABLE (
    run_id text, label text, status text, submitted_by text, created_at timestamptz, started_at timestamptz, finished_at timestamptz,
    error jsonb, parked jsonb, restart_of_run_id text, steps integer, steps_done integer, retrying boolean, waiting boolean,
    as_of timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT i.id, i.label, i.status, i.submitted_by::text, i.created_at, i.started_at, i.finished_at,
           i.error, i.parked, i.restart_of_run_id, n.steps, n.done,
           i.status = 'running' AND n.again AND NOT n.works, i.status = 'running' AND n.waits AND NOT n.ready AND NOT n.works, df.now()
    FROM (SELECT i.*, d.label FROM df.instances i JOIN df.definitions d ON d.instance_id = i.id
          WHERE ($1 IS NULL OR i.status = $1) AND ($2 IS NULL OR d.label = $2) AND ($3 IS NULL OR d.created_at >= $3)
          ORDER BY d.created_at DESC, d.instance_id LIMIT $4) i
    CROSS JOIN LATERAL (
        SELECT (count(*) FILTER (WHERE n.is_leaf))::integer AS steps,
               (count(*) FILTER (WHERE n.is_leaf AND n.status IN ('completed', 'skipped')))::integer AS done,
               coalesce(bool_or(n.status = 'running' AND (n.is_leaf OR n.token IS NOT NULL)), false) AS works,
               coalesce(bool_or(n.status = 'ready'), false) AS ready,
               coalesce(bool_or(n.status = 'ready' AND n.attempt + n.losses > 0), false) AS again,
               coalesce(bool_or(n.status = 'waiting'), false) AS waits
        FROM (SELECT n.*, n.node_type NOT IN ('THEN', 'JOIN', 'RACE', 'IF', 'LOOP', 'FLOW', 'MAP') AS is_leaf
              FROM df.nodes n WHERE n.instance_id = i.id AND n.status <> 'pattern') n) n
    ORDER BY i.created_at DESC, i.id
$$;

-- Runs whose id begins so; a few, to choose from.
CREATE OR REPLACE FUNCTION df._runs_like(prefix text, most integer)
RETURNS TABLE (run_id text, label text, status text, created_at timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT i.id, d.label, i.status, i.created_at FROM df.instances i JOIN df.definitions d ON d.instance_id = i.id
    WHERE starts_with(i.id, prefix) ORDER BY i.created_at DESC, i.id LIMIT most
$$;

-- A node's value, its own or that of the node it stands for; `found` tells a missing value from a null one.
CREATE OR REPLACE FUNCTION df._node_result(run text, node integer)
RETURNS TABLE (status text, found boolean, value text, columns jsonb)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT n.status, v.result IS NOT NULL, v.result::text, v.columns
    FROM df.nodes n
    JOIN df.nodes v ON v.instance_id = n.instance_id AND v.node_id = coalesce(n.result_node, n.node_id)
    WHERE n.instance_id = $1 AND n.node_id = $2
$$;

-- What a new session should know: the caller's unfinished runs, and how many engines are there to advance them.
CREATE OR REPLACE FUNCTION df._unfinished() RETURNS TABLE (runs bigint, engines integer)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT (SELECT count(*) FROM df.instances i WHERE i.submitted_by = df._me() AND i.status IN ('pending', 'running')),
           df._live_engines(df._me())
$$;

-- What a run is made of, to the byte.
CREATE OR REPLACE FUNCTION df._definition(run text) RETURNS TABLE (graph text, input text, variables text)
LANGUAGE sql STABLE AS $$
    SELECT d.graph::text, d.input::text, d.vars::text FROM df.definitions d WHERE d.instance_id = run
$$;

-- Who is there to execute runs. An engine that counts as alive but lacks its lock or its heartbeat is `silent`: it is being lost.
CREATE OR REPLACE FUNCTION df._engines(ended boolean)
RETURNS TABLE (
    engine_id text, state text, role text, host text, pid integer, version text, handlers text[], running bigint,
    started_at timestamptz, last_seen_at timestamptz, ended_at timestamptz, as_of timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT e.id,
           CASE WHEN e.died_at IS NOT NULL THEN 'dead' WHEN e.stopped_at IS NOT NULL THEN 'stopped'
                WHEN df._lock_held(e.lock_key, e.backend_pid)
                     AND clock_timestamp() - e.last_seen_at < make_interval(secs => (df._setting('heartbeat_limit') #>> '{}')::float8)
                THEN 'alive' ELSE 'silent' END,
           e.role::text, e.host, e.pid, e.version, e.handlers,
           (SELECT count(*) FROM df.nodes n WHERE n.engine_id = e.id AND n.status = 'running' AND n.token IS NOT NULL),
           e.started_at, e.last_seen_at, coalesce(e.died_at, e.stopped_at), clock_timestamp()
    FROM df.engines e
    WHERE ended OR (e.died_at IS NULL AND e.stopped_at IS NULL)
    ORDER BY e.started_at DESC, e.id
$$;

-- What df.explain says of a text, and the valid graph or the run that this is about. An expression is evaluated here and only once,
-- for it may do something: df.explain is given its value.
CREATE OR REPLACE FUNCTION df._explained(input text) RETURNS TABLE (picture text, graph text, run text)
LANGUAGE plpgsql VOLATILE ROWS 1 AS $$
DECLARE
    said text := btrim(input, E' \t\n\r\f\v');
BEGIN
    IF said ~ '^[0-9A-Fa-f]{8}$' THEN
        RETURN QUERY SELECT df.explain(said), NULL::text, (SELECT i.id FROM df.instances i WHERE i.id = lower(said));
        RETURN;
    ELSIF df._reads_as_graph(said) THEN
        picture := df.explain(said);
    ELSIF said ~ '~>|\|=>|\?>|!>|@>|df\.' THEN
        EXECUTE 'SELECT ' || said INTO said;
        picture := df.explain(format('%L::text -- df.', said));
    ELSE
        picture := df.explain(said);
        said := df.sql(said);
    END IF;
    IF df._reads_as_graph(said) AND picture NOT LIKE 'Cannot explain input:%' THEN
        SELECT s.node::text INTO graph FROM df._read_step(said) s WHERE s.fault IS NULL AND df._graph_fault(s.node) IS NULL;
    END IF;
    RETURN NEXT;
END $$;

-- The nodes of a graph that have a name; the body of a MAP is called after that.
CREATE OR REPLACE FUNCTION df._names(graph jsonb) RETURNS TABLE (node_id integer, name text)
LANGUAGE sql IMMUTABLE AS $$
    WITH walk AS MATERIALIZED (SELECT w.node_id, w.parent_id, w.node ->> 'result_name' AS name, w.node ->> 'node_type' = 'MAP' AS maps FROM df._walk(graph) w)
    SELECT w.node_id, coalesce(w.name, m.name) FROM walk w LEFT JOIN walk m ON m.node_id = w.parent_id AND m.maps
    WHERE coalesce(w.name, m.name) IS NOT NULL
$$;
