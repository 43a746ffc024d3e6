-- Graph JSON: auto-wrap, the walk over its nodes, validation. The same rules as workbench/graph/validate.py.

-- The node types that engines of this version execute.
CREATE OR REPLACE FUNCTION df._node_types() RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$ SELECT ARRAY['SQL', 'THEN', 'PYTHON'] $$;

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
            SELECT 1, '.left_node', w.node -> 'left_node'
            UNION ALL SELECT 2, '.right_node', w.node -> 'right_node'
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
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kind text;
    query text;
    unknown text;
BEGIN
    IF jsonb_typeof(node) <> 'object' THEN
        RETURN 'a node must be a JSON object, not ' || jsonb_typeof(node);
    END IF;
    kind := node ->> 'node_type';
    query := node ->> 'query';
    IF kind IS NULL OR kind <> ALL (df._node_types()) THEN
        RETURN format('Unknown node_type ''%s''. Valid types: %s', coalesce(kind, ''), array_to_string(df._node_types(), ', '));
    END IF;
    IF depth > 256 THEN
        RETURN 'Graph exceeds maximum nesting depth of 256. Build long sequences with wb.seq(…), which balances them.';
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(node) k
    WHERE k <> ALL ('{node_type,left_node,right_node,condition_node,extra_nodes,query,result_name,retry,policy,options}') LIMIT 1;
    IF unknown IS NOT NULL THEN
        RETURN format('unknown key ''%s''', unknown);
    END IF;
    IF node ? 'result_name' AND coalesce(node ->> 'result_name', '') !~ '^[A-Za-z_][A-Za-z0-9_]*$' THEN
        RETURN format('result_name ''%s'' is not a valid identifier', node ->> 'result_name');
    END IF;
    IF node ? 'condition_node' AND kind NOT IN ('IF', 'LOOP') THEN
        RETURN format('condition_node is not valid for %s nodes', kind);
    END IF;
    IF node ? 'extra_nodes' AND kind <> 'JOIN' THEN
        RETURN format('extra_nodes is not valid for %s nodes', kind);
    END IF;
    IF kind = 'THEN' THEN
        RETURN CASE WHEN NOT (node ? 'left_node' AND node ? 'right_node') THEN 'THEN needs left_node and right_node'
                    WHEN query IS NOT NULL THEN 'query is not valid for THEN nodes' END;
    END IF;
    IF node ? 'left_node' OR node ? 'right_node' THEN
        RETURN format('%s nodes have no children', kind);
    END IF;
    IF coalesce(btrim(query), '') = '' THEN
        RETURN format('%s needs a query', kind);
    END IF;
    IF kind = 'PYTHON' THEN
        BEGIN
            IF jsonb_typeof(query::jsonb) <> 'object' THEN
                RETURN 'query in PYTHON must be a JSON config object';
            ELSIF coalesce(query::jsonb ->> 'handler', '') = '' THEN
                RETURN 'query in PYTHON must name its handler';
            END IF;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            RETURN 'query in PYTHON must be valid JSON config';
        END;
    END IF;
    RETURN NULL;
END $$;

-- A step given as text is a graph when it is a JSON object with a known node_type, else SQL.
CREATE OR REPLACE FUNCTION df._to_graph(fut text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kind text;
BEGIN
    IF fut IS NULL THEN
        RAISE EXCEPTION 'Invalid durable function: the graph is NULL' USING ERRCODE = '22004';
    END IF;
    IF fut ~ '^\s*\{' THEN
        BEGIN
            kind := fut::jsonb ->> 'node_type';
        EXCEPTION WHEN program_limit_exceeded OR statement_too_complex THEN
            RAISE EXCEPTION 'Invalid durable function graph: root: Graph exceeds maximum nesting depth of 256.' USING ERRCODE = '22023';
        WHEN untranslatable_character THEN
            RAISE EXCEPTION 'Invalid durable function graph: root: text contains NUL (\u0000), which Postgres cannot store' USING ERRCODE = '22023';
        WHEN data_exception THEN
            IF fut ~ '^\s*\{\s*"node_type"' THEN
                RAISE EXCEPTION 'Invalid durable function: Malformed Durofut JSON: %', SQLERRM USING ERRCODE = '22023';
            END IF;
        END;
        IF kind = ANY (df._node_types()) THEN
            RETURN fut;
        ELSIF kind IS NOT NULL THEN
            RAISE EXCEPTION 'Invalid durable function: Unknown node_type ''%''. Valid types: %', kind, array_to_string(df._node_types(), ', ')
                USING ERRCODE = '22023';
        END IF;
    END IF;
    RETURN '{"node_type":"SQL","query":' || to_json(fut) || '}';
END $$;
