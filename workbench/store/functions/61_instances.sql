-- Monitoring in pg_durable's columns: lists of runs, one run, its nodes, its iterations, counts. Column names, words and texts are
-- those of df-language §17; what our own views read is in 60. Row security decides what is seen, except by df.metrics.

-- Newest first. `status_filter` is exact, lower case; `limit_count` at most the setting list_instances_max_limit.
CREATE OR REPLACE FUNCTION df.list_instances(status_filter text DEFAULT NULL, limit_count integer DEFAULT 100)
RETURNS TABLE (instance_id text, label text, function_name text, status text, execution_count bigint, output text)
LANGUAGE sql VOLATILE AS $$
    SELECT p.instance_id, p.label, p.function_name, p.status, p.execution_count, p.output
    FROM df._instance_page(status_filter, limit_count, NULL, NULL) p
$$;

-- The same by pages: `next_cursor`, equal on every row, is the `after_cursor` of the next page, and NULL on the last one.
CREATE OR REPLACE FUNCTION df.list_instances(status_filter text, limit_count integer, label_filter text, after_cursor text DEFAULT NULL)
RETURNS TABLE (
    instance_id text, label text, function_name text, status text, execution_count bigint, output text,
    created_at timestamptz, completed_at timestamptz, next_cursor text)
LANGUAGE sql VOLATILE AS $$ SELECT * FROM df._instance_page(status_filter, limit_count, label_filter, after_cursor) $$;

CREATE OR REPLACE FUNCTION df._instance_page(status_filter text, limit_count integer, label_filter text, after_cursor text)
RETURNS TABLE (
    instance_id text, label text, function_name text, status text, execution_count bigint, output text,
    created_at timestamptz, completed_at timestamptz, next_cursor text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    most bigint := (df._setting('list_instances_max_limit') #>> '{}')::bigint;
    after record;
    wanted text := 'true';
BEGIN
    PERFORM df._check_limit(limit_count);
    IF limit_count > most THEN
        RAISE EXCEPTION 'limit_count % exceeds list_instances_max_limit = % of df.settings', limit_count, most USING ERRCODE = '22023',
            HINT = 'Read page by page, df.list_instances(status, limit, label, after_cursor), or raise the setting: '
                'SELECT df.set_setting(''list_instances_max_limit'', …).';
    END IF;
    SELECT * INTO after FROM df._read_cursor(after_cursor);
    -- Only what is asked for is in the statement, and it is planned for these very values: each filter has its own best index.
    IF status_filter IN ('pending', 'running') THEN
        wanted := wanted || ' AND i.status IN (''pending'', ''running'') AND i.status = $1';
    ELSIF status_filter IS NOT NULL THEN
        wanted := wanted || ' AND i.status = $1';
    END IF;
    IF label_filter IS NOT NULL THEN
        wanted := wanted || ' AND d.label = $2';
    END IF;
    IF after_cursor IS NOT NULL THEN
        wanted := wanted || ' AND d.created_at <= $3 AND (d.created_at < $3 OR d.instance_id > $4)';
    END IF;
    RETURN QUERY EXECUTE format($query$
        WITH page AS (
            SELECT f.*, count(*) OVER () > $5 AS more FROM (
                SELECT d.instance_id, d.created_at FROM df.definitions d JOIN df.instances i ON i.id = d.instance_id
                WHERE %s ORDER BY d.created_at DESC, d.instance_id LIMIT $5 + 1) f
            ORDER BY f.created_at DESC, f.instance_id LIMIT $5
        ), last AS (
            SELECT p.more, df._cursor(p.created_at, p.instance_id) AS token FROM page p ORDER BY p.created_at, p.instance_id DESC LIMIT 1
        )
        SELECT p.instance_id, i.label, i.function_name, i.status, i.execution, i.output, i.created_at, i.completed_at,
               CASE WHEN last.more THEN last.token END
        FROM page p CROSS JOIN last CROSS JOIN LATERAL df._instance(p.instance_id) i
        ORDER BY p.created_at DESC, p.instance_id $query$, wanted)
    USING status_filter, label_filter, after.created_at, after.instance_id, limit_count::bigint;
END $$;

CREATE OR REPLACE FUNCTION df._check_limit(limit_count integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF limit_count IS NULL OR limit_count < 1 THEN
        RAISE EXCEPTION 'limit_count must be at least 1' USING ERRCODE = '22023';
    END IF;
END $$;

-- Where a page ends: hex, so that nobody is tempted to build one.
CREATE OR REPLACE FUNCTION df._cursor(created_at timestamptz, instance_id text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(convert_to(concat_ws('|', 'v1', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US+00'), instance_id), 'UTF8'),
                  'hex')
$$;

CREATE OR REPLACE FUNCTION df._read_cursor(cursor text, OUT created_at timestamptz, OUT instance_id text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    part text[];
BEGIN
    IF cursor IS NULL THEN
        RETURN;
    END IF;
    IF length(cursor) <= 512 AND cursor ~ '^([0-9a-f]{2})+$' THEN
        part := regexp_match(encode(decode(cursor, 'hex'), 'escape'),
                             '^v1\|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d(?::\d\d)?)\|([0-9a-f]{8})$');
    END IF;
    created_at := part[1]::timestamptz;
    instance_id := part[2];
    IF part IS NULL THEN
        RAISE invalid_datetime_format;
    END IF;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR invalid_time_zone_displacement_value THEN
    RAISE EXCEPTION 'df.list_instances: invalid after_cursor' USING ERRCODE = '22023',
        HINT = 'Pass the next_cursor of the page before, as it is.';
END $$;

-- What all of these say of a run. `execution` is the iteration of a LOOP at the root; `output` the result's JSON, or what went wrong.
CREATE OR REPLACE FUNCTION df._instance(run text)
RETURNS TABLE (
    label text, function_name text, status text, execution bigint, output text, created_at timestamptz, completed_at timestamptz)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT d.label, 'workbench', i.status, CASE root.node_type WHEN 'LOOP' THEN greatest(root.iteration, 1)::bigint ELSE 1 END,
           CASE WHEN i.status = 'completed' THEN coalesce(root.result, leaf.result)::text
                WHEN i.status IN ('failed', 'cancelled') THEN i.error ->> 'message' END,
           i.created_at, i.completed_at
    FROM df.instances i
    JOIN df.definitions d ON d.instance_id = i.id
    JOIN df.nodes root ON root.instance_id = i.id AND root.node_id = 0
    LEFT JOIN df.nodes leaf ON leaf.instance_id = i.id AND leaf.node_id = root.result_node
    WHERE i.id = $1
$$;

-- One run, or no row; `function_version` is the release of the schema.
CREATE OR REPLACE FUNCTION df.instance_info(instance_id text)
RETURNS TABLE (instance_id text, label text, function_name text, function_version text, current_execution_id bigint, status text, output text)
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT $1, i.label, i.function_name, split_part(df.version(), ' ', 1), i.execution, i.status, i.output FROM df._instance($1) i
$$;

-- The iterations of a LOOP at the root, newest first: the one under way or last, and of those before at most 100. Any other run is
-- one execution. An event is a transition of the run.
CREATE OR REPLACE FUNCTION df.instance_executions(instance_id text, limit_count integer DEFAULT 5)
RETURNS TABLE (execution_id bigint, status text, event_count bigint, duration_ms bigint, output text)
LANGUAGE plpgsql VOLATILE STRICT AS $$
#variable_conflict use_column
BEGIN
    PERFORM df._check_limit(limit_count);
    RETURN QUERY
    WITH run AS MATERIALIZED (
        SELECT d.execution, d.output, i.status, i.version, i.finished_at,
               CASE root.node_type WHEN 'LOOP' THEN root.started_at ELSE i.started_at END AS started_at
        FROM df.instances i CROSS JOIN LATERAL df._instance(i.id) d
        JOIN df.nodes root ON root.instance_id = i.id AND root.node_id = 0
        WHERE i.id = $1
    ), past AS (
        SELECT p.iteration::bigint AS execution, p.last_rev - p.first_rev AS events, p.last_rev,
               extract(epoch FROM p.finished_at - p.started_at) * 1000 AS ms, p.error ->> 'message' AS output
        FROM df.iterations p WHERE p.instance_id = $1 AND p.node_id = 0 AND p.iteration < (SELECT run.execution FROM run)
    ), executions AS (
        SELECT p.execution, 'ContinuedAsNew' AS status, p.events, p.ms, p.output FROM past p
        UNION ALL
        SELECT r.execution,
               CASE r.status WHEN 'completed' THEN 'Completed' WHEN 'failed' THEN 'Failed' WHEN 'cancelled' THEN 'Failed' ELSE 'Running' END,
               r.version - coalesce((SELECT max(p.last_rev) FROM past p), 0),
               coalesce(extract(epoch FROM r.finished_at - r.started_at) * 1000, 0), r.output
        FROM run r
    )
    SELECT e.execution, e.status, e.events, greatest(trunc(e.ms), 0)::bigint, e.output
    FROM executions e ORDER BY e.execution DESC LIMIT least(limit_count, 10000);
END $$;

-- Every node in pre-order; ids are the node numbers. `query` is in the stored form: conditions and extra branches as ids in its
-- config. `inferred_status` is the status in four words and `skipped`; then the next column names the nearest ended ancestor.
CREATE OR REPLACE FUNCTION df.instance_nodes(instance_id_param text)
RETURNS TABLE (
    node_id text, node_type text, query text, result_name text, left_node text, right_node text, status text, result text,
    status_details text, inferred_status text, inferred_status_from_ancestor_id text, updated_at timestamptz)
LANGUAGE sql VOLATILE STRICT AS $$
    WITH RECURSIVE found AS MATERIALIZED (
        SELECT w.node_id, w.parent_id, w.ord, w.node, n.node_type, n.status, n.iteration, n.result, n.result_node,
               df._four_words(n.status) AS word, coalesce(greatest(n.started_at, n.finished_at), d.created_at) AS updated_at
        FROM df.definitions d CROSS JOIN df._nodes_of($1) w
        JOIN df.nodes n ON n.instance_id = d.instance_id AND n.node_id = w.node_id
        WHERE d.instance_id = $1 AND n.status <> 'pattern'
    ), children AS (
        SELECT f.parent_id, max(f.node_id) FILTER (WHERE f.ord = 1) AS left_node, max(f.node_id) FILTER (WHERE f.ord = 2) AS right_node,
               max(f.node_id) FILTER (WHERE f.ord = 3) AS condition_node,
               jsonb_agg(f.node_id::text ORDER BY f.ord) FILTER (WHERE f.ord > 3) AS extra_nodes
        FROM found f GROUP BY f.parent_id
    ), placed (node_id, node_type, scope, generation, ended, ended_above) AS (
        -- A branch and an inner loop each begin a scope; its generation is the iteration of a loop at its root.
        SELECT f.node_id, f.node_type, $1, CASE f.node_type WHEN 'LOOP' THEN greatest(f.iteration, 1) ELSE 1 END,
               CASE WHEN f.word IN ('completed', 'failed') THEN f.node_id END, NULL::integer
        FROM found f WHERE f.node_id = 0
        UNION ALL
        SELECT f.node_id, f.node_type,
               CASE WHEN s.own THEN format('%s::%s::%s', p.scope, p.generation, f.node_id) ELSE p.scope END,
               CASE WHEN f.node_type = 'LOOP' THEN greatest(f.iteration, 1) WHEN s.own THEN 1 ELSE p.generation END,
               CASE WHEN f.word IN ('completed', 'failed') THEN f.node_id ELSE p.ended END, p.ended
        FROM placed p JOIN found f ON f.parent_id = p.node_id
        CROSS JOIN LATERAL (SELECT f.node_type = 'LOOP' OR p.node_type IN ('JOIN', 'RACE') AS own) s
    )
    SELECT f.node_id::text, f.node_type, df._stored_query(f.node ->> 'query', c.condition_node::text, c.extra_nodes),
           f.node ->> 'result_name', c.left_node::text, c.right_node::text, f.status,
           CASE f.status WHEN 'completed' THEN coalesce(f.result, leaf.result)::text END,
           CASE WHEN f.status NOT IN ('pending', 'skipped') THEN format('{"execution_id":"%s::%s"}', p.scope, p.generation) END,
           f.word, CASE f.word WHEN 'skipped' THEN p.ended_above::text END, f.updated_at
    FROM found f JOIN placed p ON p.node_id = f.node_id
    LEFT JOIN children c ON c.parent_id = f.node_id
    LEFT JOIN found leaf ON leaf.node_id = f.result_node
    ORDER BY f.node_id
$$;

-- An older form of the same; `_last_n_executions` has no effect.
CREATE OR REPLACE FUNCTION df.instance_nodes(instance_id_param text, _last_n_executions integer)
RETURNS TABLE (
    execution_id bigint, node_id text, node_type text, query text, result_name text, left_node text, right_node text,
    status text, result text, updated_at timestamptz)
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT 1::bigint, n.node_id, n.node_type, n.query, n.result_name, n.left_node, n.right_node, n.status, n.result, n.updated_at
    FROM df.instance_nodes($1) n
$$;

CREATE OR REPLACE FUNCTION df._four_words(status text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE status WHEN 'ready' THEN 'pending' WHEN 'waiting' THEN 'running' WHEN 'cancelled' THEN 'skipped' ELSE status END
$$;

CREATE OR REPLACE FUNCTION df._stored_query(query text, condition_node text, extra_nodes jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN condition_node IS NULL AND extra_nodes IS NULL THEN query
        ELSE df._compact((coalesce(query, '{}')::jsonb
             || jsonb_strip_nulls(jsonb_build_object('condition_node', condition_node, 'extra_nodes', extra_nodes)))::json) END
$$;

-- Counts over all roles, in one row; running_instances are all that have not ended. Everything else shows a role its own runs only,
-- so who may execute this is decided in 90_privileges.sql: not PUBLIC.
CREATE OR REPLACE FUNCTION df.metrics()
RETURNS TABLE (
    total_instances bigint, running_instances bigint, completed_instances bigint, failed_instances bigint,
    total_executions bigint, total_events bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, df, pg_temp AS $$
    -- Only a loop at a root executes more than once, and one that did has left rows in df.iterations.
    SELECT count(*), count(*) FILTER (WHERE i.status IN ('pending', 'running')), count(*) FILTER (WHERE i.status = 'completed'),
           count(*) FILTER (WHERE i.status = 'failed'),
           count(*) + (SELECT coalesce(sum(greatest(n.iteration, 1) - 1), 0)::bigint
                       FROM (SELECT DISTINCT p.instance_id FROM df.iterations p WHERE p.node_id = 0) p
                       JOIN df.nodes n ON n.instance_id = p.instance_id AND n.node_id = 0),
           coalesce(sum(i.version), 0)::bigint
    FROM df.instances i
$$;
