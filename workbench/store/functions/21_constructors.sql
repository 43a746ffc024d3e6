-- Building graphs in SQL: constructors, and what becomes of text that is given as a step. Nothing is stored here.
-- The text is that of workbench/graph/codec.py, byte for byte; what can be started is decided in 20 and 30.

CREATE OR REPLACE FUNCTION df._node_keys() RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT '{node_type,left_node,right_node,condition_node,extra_nodes,query,result_name,retry,policy,options}'::text[]
$$;

CREATE OR REPLACE FUNCTION df.sql(query text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$ SELECT '{"node_type":"SQL","query":' || to_json(query) || '}' $$;

-- A step that workers execute which are no engines, see 42. `input` may have {"$ref": "x"} anywhere inside.
CREATE OR REPLACE FUNCTION df.external(handler text, input json DEFAULT '{}') RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT coalesce(
        df._refuse('df.external: ' || df._external_fault(jsonb_build_object('handler', handler, 'input', input::jsonb))),
        '{"node_type":"EXTERNAL","query":' || to_json('{"handler":' || to_json(handler) || ',"input":' || df._compact(input) || '}') || '}')
$$;

CREATE OR REPLACE FUNCTION df._external_fault(config jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(config -> 'handler') <> 'string' OR btrim(config ->> 'handler') = '' OR length(config ->> 'handler') > 200
                THEN 'handler in EXTERNAL must be a name of 1 to 200 characters'
                WHEN jsonb_typeof(config -> 'input') <> 'object'
                THEN 'input in EXTERNAL must be an object, not ' || jsonb_typeof(config -> 'input') END
$$;

CREATE OR REPLACE FUNCTION df.seq(a text, b text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT '{"node_type":"THEN","left_node":' || df._step(a) || ',"right_node":' || df._step(b) || '}'
$$;

CREATE OR REPLACE FUNCTION df."as"(fut text, name text) RETURNS text
LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
    fault text := df._name_fault(name);
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'df.as: %', fault USING ERRCODE = '22023';
    END IF;
    RETURN df._with_key(df._step(fut), 'result_name', to_json(name)::text);
END $$;

CREATE OR REPLACE FUNCTION df._name_fault(name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN name = '' THEN 'result name cannot be empty'
        WHEN name !~ '^[A-Za-z_][A-Za-z0-9_]*$' THEN format(
            '''%s'' is not a valid identifier; use letters, digits and underscores, not starting with a digit', left(name, 100))
        WHEN name = 'input' THEN '''input'' is reserved for the run''s input; choose another name'
    END
$$;

-- A step as graph JSON: a graph as it is, other text as SQL. An object with an unknown node_type is a text like any other.
CREATE OR REPLACE FUNCTION df._step(fut text) RETURNS text
LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    step record;
    fault text;
BEGIN
    IF fut !~ '^\s*\{' THEN
        PERFORM df._refuse_helper();
    ELSE
        SELECT * INTO step FROM df._read_step(fut);
        fault := coalesce(step.fault, df._shape_fault(step.node, fut));
        IF fault IS NOT NULL THEN
            RAISE EXCEPTION 'Invalid Durofut JSON: failed to deserialize workflow step: %', fault USING ERRCODE = '22023';
        ELSIF step.node ->> 'node_type' = ANY (df._node_types()) THEN
            RETURN df._compact_graph(fut);
        END IF;
    END IF;
    RETURN '{"node_type":"SQL","query":' || to_json(fut) || '}';
END $$;

-- The node that a text is, NULL for any other text; `fault` when it is meant as one and jsonb cannot hold it.
CREATE OR REPLACE FUNCTION df._read_step(fut text, OUT node jsonb, OUT fault text)
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    node := fut::jsonb;
    IF jsonb_typeof(node) <> 'object' OR jsonb_typeof(node -> 'node_type') IS DISTINCT FROM 'string' THEN
        node := NULL;
    END IF;
EXCEPTION
    WHEN untranslatable_character THEN
        IF fut ~ '"node_type"\s*:' THEN
            fault := 'text contains NUL (\u0000), which Postgres cannot store; remove it';
        END IF;
    WHEN program_limit_exceeded THEN
        fault := CASE SQLSTATE WHEN '54001' THEN df._depth_fault() ELSE SQLERRM END;
    WHEN data_exception THEN
        NULL;
END $$;

-- What keeps a text with a known node_type from being a graph, or NULL. The walk costs too much for every step of a long chain,
-- and what constructors wrote was walked when it was built: one look at the whole shows whether it is needed.
CREATE OR REPLACE FUNCTION df._shape_fault(node jsonb, fut text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    fault text;
BEGIN
    IF node IS NULL OR node ->> 'node_type' <> ALL (df._node_types())
       OR (df._is_compact(fut) AND NOT df._is_suspect(node) AND df._type_fault(node) IS NULL) THEN
        RETURN NULL;
    END IF;
    SELECT w.path || ': ' || f.fault INTO fault
    FROM df._walk(node) w CROSS JOIN LATERAL df._type_fault(w.node) AS f (fault)
    WHERE f.fault IS NOT NULL ORDER BY w.node_id LIMIT 1;
    RETURN fault;
END $$;

-- Whether something in it, at any depth, may be of the wrong JSON type.
CREATE OR REPLACE FUNCTION df._is_suspect(node jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_path_exists(node, '$.** ? (
        @.query.type() != "string" || @.result_name.type() != "string" || @.extra_nodes.type() != "array"
        || @.left_node.type() != "object" || exists(@.left_node ? (!exists(@.node_type)))
        || @.right_node.type() != "object" || exists(@.right_node ? (!exists(@.node_type)))
        || @.condition_node.type() != "object" || exists(@.condition_node ? (!exists(@.node_type)))
        || exists(@.extra_nodes[*] ? (@.type() != "object" || !exists(@.node_type))))')
$$;

-- Whether a text begins as constructors write it, which other printers of JSON do not.
CREATE OR REPLACE FUNCTION df._is_compact(fut text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT starts_with(fut, '{"node_type":"') $$;

-- Graph text in the one order and spacing; text that constructors wrote is that already.
CREATE OR REPLACE FUNCTION df._compact_graph(fut text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN df._is_compact(fut) THEN fut ELSE df._rewrite(fut::json) END $$;

CREATE OR REPLACE FUNCTION df._rewrite(node json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (
        SELECT '{' || string_agg(to_json(k.key) || ':' || CASE
                   WHEN k.key IN ('left_node', 'right_node', 'condition_node') THEN df._rewrite(e.value)
                   WHEN k.key = 'extra_nodes' THEN
                       '[' || (SELECT string_agg(df._rewrite(x.value), ',' ORDER BY x.n)
                               FROM json_array_elements(e.value) WITH ORDINALITY AS x (value, n)) || ']'
                   ELSE df._compact(e.value) END, ',' ORDER BY k.n) || '}'
        FROM unnest(df._node_keys()) WITH ORDINALITY AS k (key, n)
        JOIN LATERAL (SELECT o.value FROM json_each(node) WITH ORDINALITY AS o (key, value, n)
                      WHERE o.key = k.key ORDER BY o.n DESC LIMIT 1) AS e ON true
        WHERE e.value::text !~ '^(null|\[\s*\]|\{\s*\})$');
END $$;

-- Any JSON without spaces, its keys in the order given, its strings escaped as to_json does.
CREATE OR REPLACE FUNCTION df._compact(value json) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE json_typeof(value)
        WHEN 'object' THEN '{' || coalesce((SELECT string_agg(to_json(o.key) || ':' || df._compact(o.value), ',' ORDER BY o.n)
                                            FROM json_each(value) WITH ORDINALITY AS o (key, value, n)), '') || '}'
        WHEN 'array' THEN '[' || coalesce((SELECT string_agg(df._compact(x.value), ',' ORDER BY x.n)
                                           FROM json_array_elements(value) WITH ORDINALITY AS x (value, n)), '') || ']'
        WHEN 'string' THEN to_json(value #>> '{}')::text
        ELSE value::text END;
END $$;

-- The same node with one key set, at its place; `value` is JSON text.
CREATE OR REPLACE FUNCTION df._with_key(graph text, key text, value text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT '{' || string_agg('"' || k.key || '":' || CASE k.key WHEN $2 THEN $3 ELSE e.value::text END, ',' ORDER BY k.n) || '}'
    FROM unnest(df._node_keys()) WITH ORDINALITY AS k (key, n) LEFT JOIN json_each(graph::json) AS e ON e.key = k.key
    WHERE k.key = $2 OR json_typeof(e.value) <> 'null'
$$;

-- df.setvar and its like return text, which a constructor would take for SQL: they leave a mark, and whoever in the same
-- statement is then given text that is no graph refuses it.
CREATE OR REPLACE FUNCTION df._mark_helper(helper text) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT set_config('df.non_future_helper', helper || ' ' || extract(epoch FROM statement_timestamp()), true)
$$;

CREATE OR REPLACE FUNCTION df._refuse_helper() RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    mark text := current_setting('df.non_future_helper', true);
    helper text := split_part(mark, ' ', 1);
BEGIN
    IF mark = helper || ' ' || extract(epoch FROM statement_timestamp()) THEN
        RAISE EXCEPTION '% cannot be used as a workflow step. Call % before df.start().', helper, helper USING ERRCODE = '22023';
    END IF;
END $$;
