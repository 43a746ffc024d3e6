-- Flows that are defined and started in SQL. A version of a flow is a graph; once a run was started with it, it does not change any
-- more. Flows written in Python are noted when they are started, so that all versions of a flow are in one place, df.flows.

-- Makes a flow without steps, or sets how often and how the steps of one are tried. Returns the version that says so.
CREATE OR REPLACE FUNCTION df.create_flow(
    slug text, max_attempts integer DEFAULT 3, base_delay interval DEFAULT '1 second', max_backoff interval DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    graph text := coalesce((df._newest_flow(slug)).graph::text, '{"node_type":"FLOW","query":' || to_json('{"slug":' || to_json(slug) || ',"steps":[]}') || '}');
BEGIN
    PERFORM df._refuse('flow: ' || df._slug_fault(coalesce(to_jsonb(slug), 'null')));
    RETURN df._put_flow(slug, df.with_retry(df._with_key(graph, 'retry', NULL), max_attempts, max_backoff, base_delay));
END $$;

-- Adds a step, or puts another in place of the one of that name. `node` is a SQL statement or a leaf, such as df.http or df.external
-- give it; it sees what it depends on (`deps`) as $name, and the run's input as $input. With `over`, a step that it depends on or
-- 'input', it is executed for each element, which it sees as $item. The options are those of a step in Python.
CREATE OR REPLACE FUNCTION df.add_step(
    flow text, step text, deps text[], node text, over text DEFAULT NULL, as_name text DEFAULT 'item',
    if_ jsonb DEFAULT NULL, if_not jsonb DEFAULT NULL, if_skipped text DEFAULT NULL,
    when_unmet text DEFAULT 'skip', when_exhausted text DEFAULT 'fail', return_exceptions boolean DEFAULT false,
    max_attempts integer DEFAULT NULL, base_delay interval DEFAULT NULL, max_backoff interval DEFAULT NULL,
    timeout interval DEFAULT NULL, start_delay interval DEFAULT NULL
) RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    graph json := (df._known_flow(flow)).graph;
    said text := (
        SELECT '{' || string_agg(to_json(k.key) || ':' || df._compact(k.value::json), ',' ORDER BY k.n) || '}'
        FROM (VALUES (1, 'step', coalesce(to_jsonb(step), 'null')), (2, 'after', to_jsonb(nullif(deps, '{}'))), (3, 'if', if_), (4, 'if_not', if_not),
                     (5, 'if_skipped', to_jsonb(if_skipped)), (6, 'when_unmet', to_jsonb(nullif(when_unmet, 'skip'))),
                     (7, 'when_exhausted', to_jsonb(nullif(when_exhausted, 'fail')))) AS k (n, key, value)
        WHERE k.value IS NOT NULL);
    child text := df._with_options(df._step(node), jsonb_strip_nulls(jsonb_build_object(
        'timeout', extract(epoch FROM timeout), 'start_delay', CASE WHEN over IS NULL THEN extract(epoch FROM start_delay) END)));
BEGIN
    IF child IS NULL THEN
        RAISE EXCEPTION 'step "%" of flow "%" has no node: give a SQL statement or a step', step, flow USING ERRCODE = '22004';
    ELSIF over IS NOT NULL THEN
        child := df.map(over, child, as_name);
        IF return_exceptions THEN
            child := df._with_key(child, 'query', to_json(left((child::json ->> 'query'), -1) || ',"return_exceptions":true}')::text);
        END IF;
        child := df._with_options(child, jsonb_strip_nulls(jsonb_build_object('start_delay', extract(epoch FROM start_delay))));
    END IF;
    IF max_attempts IS NOT NULL OR base_delay IS NOT NULL OR max_backoff IS NOT NULL THEN
        child := df.with_retry(child, max_attempts, max_backoff, base_delay);
    END IF;
    RETURN df._put_flow(flow, df._with_step(graph, step, said, df._with_key(child, 'result_name', to_json(step)::text)));
END $$;

-- Takes a step out; those that depend on it have to go first.
CREATE OR REPLACE FUNCTION df.drop_step(flow text, step text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    graph json := (df._known_flow(flow)).graph;
BEGIN
    IF step <> ALL (df._steps_of(graph)) THEN
        RAISE EXCEPTION 'flow "%" has no step "%"; it has: %', flow, step, coalesce(nullif(array_to_string(df._steps_of(graph), ', '), ''), 'none')
            USING ERRCODE = '02000';
    END IF;
    RETURN df._put_flow(flow, df._with_step(graph, step, NULL, NULL));
END $$;

-- Starts the newest version of a flow. `run_id` is the id that the run is to have, 8 hex digits; `restart_of_run_id` a failed run of
-- the same flow that this one follows, as df.retry_run makes one with its input.
CREATE OR REPLACE FUNCTION df.start_flow(
    slug text, input jsonb DEFAULT NULL, run_id text DEFAULT NULL, restart_of_run_id text DEFAULT NULL
) RETURNS SETOF df.instances LANGUAGE plpgsql VOLATILE ROWS 1 AS $$
#variable_conflict use_variable
DECLARE
    flow df.flows := df._known_flow(slug);
    definition df.definitions := df._definition(flow.graph::text, input);
    source text;
    made text;
BEGIN
    PERFORM df._check_place(NULL);
    PERFORM df._check_graph(flow.graph::text);
    PERFORM df._check_maps(flow.graph::jsonb, definition.input);
    IF run_id !~ '^[0-9a-f]{8}$' THEN
        RAISE EXCEPTION 'invalid run_id "%": expected 8 lower-case hex digits, or NULL for one of its own', left(run_id, 100) USING ERRCODE = '22023';
    END IF;
    IF restart_of_run_id IS NOT NULL THEN
        source := df._flow_slug((df._retried(restart_of_run_id)).graph::text);
        IF source IS DISTINCT FROM slug THEN
            RAISE EXCEPTION 'run % is no run of flow "%"%: nothing was started', restart_of_run_id, slug, coalesce(' but of "' || source || '"', '')
                USING ERRCODE = '22023';
        END IF;
        definition.kind := 'retry';
    END IF;
    definition.instance_id := run_id;
    definition.flow := slug;
    definition.flow_version := flow.version;
    UPDATE df.flows f SET started_at = df.now()
    WHERE f.owner = flow.owner AND f.slug = slug AND f.version = flow.version AND f.started_at IS NULL;
    made := df._new_run(definition, NULL, restart_of_run_id, true);
    RETURN QUERY SELECT * FROM df.instances i WHERE i.id = made;
END $$;

-- The versions of flows, those of a flow together, the newest first, with how many runs there are of each.
CREATE OR REPLACE FUNCTION df.list_flows(of_slug text DEFAULT NULL)
RETURNS TABLE (slug text, version integer, steps text[], owner text, created_at timestamptz, last_started_at timestamptz,
               runs bigint, unfinished bigint, failed bigint)
LANGUAGE sql STABLE AS $$
    SELECT f.slug, f.version, df._steps_of(f.graph), f.owner::text, f.created_at, max(i.created_at), count(i.id),
           count(*) FILTER (WHERE i.status IN ('pending', 'running')), count(*) FILTER (WHERE i.status = 'failed')
    FROM df.flows f
    LEFT JOIN df.definitions d ON d.submitted_by = f.owner AND d.flow = f.slug AND d.flow_version = f.version
    LEFT JOIN df.instances i ON i.id = d.instance_id
    WHERE of_slug IS NULL OR f.slug = of_slug
    GROUP BY f.owner, f.slug, f.version ORDER BY f.slug, f.owner::text, f.version DESC
$$;

-- What a run is made of when nothing else is said.
CREATE OR REPLACE FUNCTION df._definition(graph text, input jsonb) RETURNS df.definitions
LANGUAGE plpgsql AS $$
DECLARE
    definition df.definitions;
BEGIN
    definition.kind := 'start';
    definition.graph := graph;
    definition.input := coalesce(input, 'null');
    definition.vars := (SELECT coalesce(jsonb_object_agg(v.name, v.value), '{}') FROM df.vars v WHERE v.owner = df._me() AND v.value IS NOT NULL);
    definition.max_attempts := 1;
    definition.max_backoff := '16 seconds';
    definition.on_failure := 'fail';
    RETURN definition;
END $$;

-- The slug of a graph that is a flow as a whole.
CREATE OR REPLACE FUNCTION df._flow_slug(graph text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN graph LIKE '{"node_type":"FLOW"%' THEN (graph::json ->> 'query')::json ->> 'slug' END $$;

-- The version of a flow that a run is started with; one that has not been seen is noted.
CREATE OR REPLACE FUNCTION df._note_flow(slug text, graph text) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    known integer;
BEGIN
    known := (SELECT f.version FROM df.flows f
              WHERE f.owner = df._me() AND f.slug = slug AND f.graph::text = graph AND f.started_at IS NOT NULL ORDER BY f.version DESC LIMIT 1);
    IF known IS NULL THEN
        PERFORM df._lock_flow(slug);
        known := df._put_flow(slug, graph);
        UPDATE df.flows f SET started_at = coalesce(f.started_at, df.now()) WHERE f.owner = df._me() AND f.slug = slug AND f.version = known;
    END IF;
    RETURN known;
END $$;

CREATE OR REPLACE FUNCTION df._lock_flow(slug text) RETURNS void
LANGUAGE sql AS $$ SELECT pg_advisory_xact_lock(hashtextextended('df.flow ' || df._me()::oid || ' ' || slug, 0)) $$;

CREATE OR REPLACE FUNCTION df._newest_flow(slug text) RETURNS df.flows
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    PERFORM df._lock_flow(slug);
    RETURN (SELECT f FROM df.flows f WHERE f.owner = df._me() AND f.slug = slug ORDER BY f.version DESC LIMIT 1);
END $$;

CREATE OR REPLACE FUNCTION df._known_flow(slug text) RETURNS df.flows
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    flow df.flows;
BEGIN
    SELECT * INTO flow FROM df.flows f WHERE f.owner = df._me() AND f.slug = slug ORDER BY f.version DESC LIMIT 1;
    IF flow.slug IS NULL THEN
        RAISE EXCEPTION 'there is no flow "%"', coalesce(slug, 'NULL') USING ERRCODE = '02000',
            HINT = 'SELECT df.create_flow(''…'') makes one; yours: SELECT DISTINCT slug FROM df.flows.';
    END IF;
    RETURN flow;
END $$;

-- Changes the newest version, or makes one when that has been started; what is there already is left as it is.
CREATE OR REPLACE FUNCTION df._put_flow(slug text, graph text) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    newest df.flows := df._newest_flow(slug);
    fault text := df._flow_fault((graph::jsonb ->> 'query')::jsonb, graph::jsonb -> 'extra_nodes');
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'flow "%": %', slug, fault USING ERRCODE = '22023';
    END IF;
    PERFORM df._check_graph(graph);
    IF newest.graph::text = graph THEN
        RETURN newest.version;
    ELSIF newest.slug IS NOT NULL AND newest.started_at IS NULL THEN
        UPDATE df.flows f SET graph = _put_flow.graph::json WHERE f.owner = newest.owner AND f.slug = slug AND f.version = newest.version;
        RETURN newest.version;
    END IF;
    INSERT INTO df.flows (owner, slug, version, graph, created_at)
    VALUES (df._me(), slug, coalesce(newest.version, 0) + 1, graph::json, df.now());
    RETURN coalesce(newest.version, 0) + 1;
END $$;

CREATE OR REPLACE FUNCTION df._steps_of(graph json) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(s.value ->> 'step' ORDER BY s.n), '{}') FROM json_array_elements((graph ->> 'query')::json -> 'steps') WITH ORDINALITY AS s (value, n)
$$;

-- The flow with this step in place of the one of its name, or behind all others; without it when it is NULL.
CREATE OR REPLACE FUNCTION df._with_step(graph json, step text, config text, child text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT df._with_key(df._with_key(graph::text, 'extra_nodes', '[' || string_agg(p.child, ',' ORDER BY p.n) || ']'), 'query',
                        to_json('{"slug":' || to_json((graph ->> 'query')::json ->> 'slug') || ',"steps":['
                                || concat_ws(',', string_agg(p.config, ',' ORDER BY p.n)) || ']}')::text)
    FROM (SELECT s.n, CASE WHEN s.value ->> 'step' = step THEN $3 ELSE s.value::text END AS config,
                 CASE WHEN s.value ->> 'step' = step THEN $4 ELSE c.value::text END AS child
          FROM json_array_elements((graph ->> 'query')::json -> 'steps') WITH ORDINALITY AS s (value, n)
          JOIN json_array_elements(graph -> 'extra_nodes') WITH ORDINALITY AS c (value, n) ON c.n = s.n
          UNION ALL SELECT 2147483647, $3, $4 WHERE step <> ALL (df._steps_of(graph))) p
    WHERE p.child IS NOT NULL
$$;

-- A node with more options; what they must say is checked with the flow.
CREATE OR REPLACE FUNCTION df._with_options(graph text, more jsonb) RETURNS text
LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE WHEN more = '{}' THEN graph ELSE df._with_key(graph, 'options', '{' || (
        SELECT string_agg(to_json(o.key) || ':' || o.value, ',') FROM (
            SELECT e.key, e.value::text FROM json_each(graph::json -> 'options') AS e WHERE NOT more ? e.key
            UNION ALL SELECT m.key, trim_scale((m.value #>> '{}')::numeric)::text FROM jsonb_each(more) AS m) o) || '}') END
$$;
