-- Graph JSON: auto-wrap, the walk over its nodes, validation. The same rules as workbench/graph/validate.py.

-- Every node type, as in workbench/graph/shapes.py.
CREATE OR REPLACE FUNCTION df._node_types() RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT '{SQL,THEN,IF,JOIN,LOOP,BREAK,RACE,SLEEP,WAIT_SCHEDULE,HTTP,HTTP_MULTIPART,SIGNAL,PYTHON,EXTERNAL,FLOW,MAP}'::text[]
$$;

-- Every node in pre-order: its number, its parent's number, which child of it (1 left, 2 right, 3 condition, 4… extra),
-- its depth and the path that error texts name. Stops one level below the deepest legal one.
CREATE OR REPLACE FUNCTION df._walk(graph jsonb)
RETURNS TABLE (node_id integer, parent_id integer, ord integer, depth integer, path text, node jsonb)
LANGUAGE sql IMMUTABLE AS $$
    WITH RECURSIVE walk (place, path, node) AS (
        SELECT '{}'::integer[], 'root', graph
        UNION ALL
        SELECT w.place || c.ord, w.path || c.step, c.node
        FROM walk w CROSS JOIN LATERAL (
            SELECT 1, '.left', w.node -> 'left_node'
            UNION ALL SELECT 2, '.right', w.node -> 'right_node'
            UNION ALL SELECT 3, '.condition_node', w.node -> 'condition_node'
            UNION ALL SELECT 3 + e.n::integer, '.extra_nodes[' || e.n - 1 || ']', e.node
            FROM jsonb_array_elements(CASE jsonb_typeof(w.node -> 'extra_nodes') WHEN 'array' THEN w.node -> 'extra_nodes' END)
                 WITH ORDINALITY AS e (node, n)
        ) AS c (ord, step, node)
        WHERE jsonb_typeof(c.node) <> 'null' AND cardinality(w.place) <= 256
    ), numbered AS (
        SELECT row_number() OVER (ORDER BY place)::integer - 1 AS node_id, * FROM walk
    )
    SELECT n.node_id, p.node_id, n.place[cardinality(n.place)], cardinality(n.place), n.path, n.node
    FROM numbered n LEFT JOIN numbered p ON p.place = n.place[:cardinality(n.place) - 1] AND n.place <> '{}'
$$;

-- What is wrong with one node by itself, or NULL.
CREATE OR REPLACE FUNCTION df._fault(node jsonb, depth integer) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    is_plain boolean := df._is_plain(node);
    kind text := node ->> 'node_type';
    fault text := CASE WHEN NOT is_plain THEN df._type_fault(node) END;
BEGIN
    IF fault IS NOT NULL THEN
        RETURN fault;
    ELSIF kind <> ALL (df._node_types()) THEN
        RETURN df._unknown_type(kind);
    ELSIF depth > 256 THEN
        RETURN df._depth_fault();
    END IF;
    fault := coalesce(CASE WHEN NOT is_plain THEN df._slot_fault(node, kind) END,
                      df._query_fault(kind, node ->> 'query', coalesce(jsonb_typeof(node -> 'condition_node'), 'null') <> 'null'),
                      CASE WHEN kind = 'FLOW' THEN df._flow_fault((node ->> 'query')::jsonb, node -> 'extra_nodes') END,
                      'result_name ' || df._name_fault(node ->> 'result_name'));
    RETURN coalesce(fault, CASE WHEN NOT is_plain AND node ?| '{retry,policy,options}' THEN df._extras_fault(node, kind) END);
END $$;

CREATE OR REPLACE FUNCTION df._query_fault(kind text, query text, has_condition boolean) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    config jsonb := '{}';
BEGIN
    IF kind IN ('THEN', 'RACE') THEN
        RETURN CASE WHEN query IS NOT NULL THEN format('query is not valid for %s nodes', kind) END;
    ELSIF (query IS NULL AND kind NOT IN ('IF', 'JOIN', 'LOOP')) OR (kind = 'SQL' AND btrim(query) = '') THEN
        RETURN format('query is missing; %s nodes need it', kind);
    ELSIF kind = 'SQL' THEN
        RETURN NULL;
    ELSIF kind = 'SLEEP' THEN
        RETURN df._seconds_fault(query);
    ELSIF query IS NOT NULL THEN
        BEGIN
            config := query::jsonb;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            RETURN format('query in %s must be valid JSON config', kind);
        END;
    END IF;
    RETURN df._config_fault(kind, config, has_condition);
END $$;

-- What is wrong with the JSON object that a node's query is; 22 to 25 know the types.
CREATE OR REPLACE FUNCTION df._config_fault(kind text, config jsonb, has_condition boolean) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    embedded text := CASE WHEN kind IN ('IF', 'LOOP') THEN 'condition_node' WHEN kind = 'JOIN' THEN 'extra_nodes' END;
    needed text[] := CASE kind WHEN 'BREAK' THEN '{break_value}' WHEN 'WAIT_SCHEDULE' THEN '{cron_expr}' WHEN 'SIGNAL' THEN '{signal_name}'
                               WHEN 'PYTHON' THEN '{handler}' WHEN 'EXTERNAL' THEN '{handler}' WHEN 'HTTP' THEN '{url,method}' WHEN 'HTTP_MULTIPART' THEN '{url,method,parts}'
                               WHEN 'FLOW' THEN '{slug,steps}' WHEN 'MAP' THEN '{over,as}' END;
BEGIN
    IF jsonb_typeof(config) <> 'object' THEN
        RETURN format('query in %s must be a JSON config object', kind);
    ELSIF NOT config ?& needed THEN
        RETURN (SELECT format('query in %s lacks ''%s''', kind, key)
                FROM unnest(needed) WITH ORDINALITY AS n (key, n) WHERE NOT config ? key ORDER BY n LIMIT 1);
    ELSIF config ? embedded THEN
        RETURN format('%s in %s must be a first-class Durofut field, not embedded in query', embedded, kind);
    END IF;
    RETURN CASE kind
        WHEN 'IF' THEN CASE WHEN NOT has_condition THEN df._if_rows_fault(config) END
        WHEN 'BREAK' THEN df._break_fault(config)
        WHEN 'MAP' THEN df._map_fault(config)
        WHEN 'WAIT_SCHEDULE' THEN df._schedule_fault(config)
        WHEN 'SIGNAL' THEN df._signal_fault(config)
        WHEN 'HTTP' THEN df._http_fault(kind, config)
        WHEN 'HTTP_MULTIPART' THEN df._http_fault(kind, config)
        WHEN 'EXTERNAL' THEN df._external_fault(config)
        WHEN 'PYTHON' THEN CASE WHEN jsonb_typeof(config -> 'handler') <> 'string' OR config ->> 'handler' = ''
                                THEN 'handler in PYTHON must be a name such as ''module:function''' END
    END;
END $$;

-- The two shapes that nearly all nodes have, told at once.
CREATE OR REPLACE FUNCTION df._is_plain(node jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE node ->> 'node_type'
        WHEN 'SQL' THEN jsonb_typeof(node -> 'query') = 'string' AND node - '{node_type,query,result_name}'::text[] = '{}'
        WHEN 'THEN' THEN jsonb_typeof(node -> 'left_node') = 'object' AND jsonb_typeof(node -> 'right_node') = 'object'
             AND node - '{node_type,left_node,right_node,result_name}'::text[] = '{}'
        END AND coalesce(jsonb_typeof(node -> 'result_name'), 'string') = 'string') IS TRUE
$$;

-- The first key whose value has the wrong JSON type, or that a node does not have. A null is as good as an absent key.
CREATE OR REPLACE FUNCTION df._type_fault(node jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT fault FROM (
        SELECT CASE
            WHEN e.key <> ALL (df._node_keys()) THEN format('unknown key ''%s''; a node has only %s', e.key, array_to_string(df._node_keys(), ', '))
            WHEN e.kind = 'null' THEN NULL
            WHEN e.key IN ('query', 'result_name') AND e.kind <> 'string' THEN format('%s must be text, not %s', e.key, e.kind)
            WHEN e.key IN ('left_node', 'right_node') AND e.kind <> 'object' THEN
                format('failed to deserialize Durofut child: %s must be a JSON object', e.key)
            WHEN e.key = 'condition_node' AND e.kind <> 'object' THEN 'condition_node must be a Durofut JSON object'
            WHEN e.key = 'extra_nodes'
                 AND (e.kind <> 'array' OR jsonb_path_exists(node, 'strict $.extra_nodes[*] ? (@.type() != "object")', '{}', true)) THEN
                'extra_nodes entries must be Durofut JSON objects'
            WHEN e.key IN ('retry', 'policy', 'options') AND e.kind <> 'object' THEN format('%s must be a JSON object, not %s', e.key, e.kind)
        END AS fault
        FROM (
            SELECT key, jsonb_typeof(value) AS kind
            FROM jsonb_each(CASE jsonb_typeof(node -> 'node_type') WHEN 'string' THEN node ELSE '{}' END)
        ) AS e
        UNION ALL SELECT 'failed to deserialize Durofut child: a node is a JSON object with a node_type, which is text'
        WHERE jsonb_typeof(node -> 'node_type') IS DISTINCT FROM 'string'
    ) AS f WHERE fault IS NOT NULL LIMIT 1
$$;

-- A slot that the node's type does not have, or has to have.
CREATE OR REPLACE FUNCTION df._slot_fault(node jsonb, kind text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN s.filled THEN format('%s is not valid for %s nodes', s.slot, kind)
        ELSE format('%s is missing; %s nodes need it', s.slot, kind) END
    FROM (
        SELECT slot, node ->> slot IS NOT NULL AND node -> slot <> '[]' AS filled, kind = ANY (takers::text[]) AS takes, kind = ANY (needers::text[]) AS needs
        FROM (VALUES ('left_node', '{THEN,IF,JOIN,RACE,LOOP,MAP}', '{THEN,IF,JOIN,RACE,LOOP,MAP}'),
                     ('right_node', '{THEN,IF,JOIN,RACE}', '{THEN,IF,JOIN,RACE}'),
                     ('condition_node', '{IF,LOOP}', '{}'),
                     ('extra_nodes', '{JOIN,FLOW}', '{}')) AS v (slot, takers, needers)
    ) AS s WHERE (s.filled AND NOT s.takes) OR (s.needs AND NOT s.filled) LIMIT 1
$$;

CREATE OR REPLACE FUNCTION df._depth_fault() RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT 'Graph exceeds maximum nesting depth of 256. Nest long sequences evenly, (a ~> b) ~> (c ~> d), as wb.seq(…) does in Python,'
        || ' or split the graph into several runs.'
$$;

CREATE OR REPLACE FUNCTION df._unknown_type(kind text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format('Unknown node_type ''%s''. Valid types: %s', left(kind, 100), array_to_string(df._node_types(), ', '))
$$;

-- What df.start is given, as graph text: as strict as constructors (21) are lenient.
CREATE OR REPLACE FUNCTION df._to_graph(fut text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    step record;
    kind text;
BEGIN
    IF fut IS NULL THEN
        RAISE EXCEPTION 'Invalid durable function: the graph is NULL' USING ERRCODE = '22004',
            HINT = 'A constructor with a NULL argument returns NULL.';
    ELSIF fut !~ '^\s*\{' THEN
        PERFORM df._refuse_helper();
        RETURN df.sql(fut);
    END IF;
    SELECT * INTO step FROM df._read_step(fut);
    kind := step.node ->> 'node_type';
    IF step.fault IS NOT NULL THEN
        RAISE EXCEPTION 'Invalid durable function graph: root: %', step.fault USING ERRCODE = '22023';
    ELSIF kind IS NULL THEN
        IF fut ~ '^\s*\{\s*"node_type"' AND df._read_error(fut) IS NOT NULL THEN
            -- Cut off or garbled: meant as a graph, and no SQL in any case.
            RAISE EXCEPTION 'Invalid durable function: Malformed Durofut JSON: %', df._read_error(fut) USING ERRCODE = '22023';
        END IF;
        RETURN df.sql(fut);
    ELSIF kind <> ALL (df._node_types()) THEN
        RAISE EXCEPTION 'Invalid durable function: %', df._unknown_type(kind) USING ERRCODE = '22023';
    ELSIF NOT df._is_plain(step.node) AND df._type_fault(step.node) IS NOT NULL THEN
        RAISE EXCEPTION 'Invalid durable function: Malformed Durofut JSON with node_type ''%'': %', kind, df._type_fault(step.node) USING ERRCODE = '22023';
    END IF;
    RETURN df._compact_graph(fut);
END $$;

-- Why a text is not JSON, or NULL.
CREATE OR REPLACE FUNCTION df._read_error(text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM $1::jsonb;
    RETURN NULL;
EXCEPTION WHEN data_exception THEN
    RETURN SQLERRM;
END $$;
