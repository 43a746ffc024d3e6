-- Maps and flows: building them, and what their configs must say, in the words of workbench/graph/dag.py.

-- Runs `body` once for each row or element of a named result; each sees its own by the name `as_name`.
CREATE OR REPLACE FUNCTION df.map(result_name text, body text, as_name text DEFAULT 'item') RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT coalesce(
        df._refuse('df.map: ' || df._map_fault(jsonb_build_object('over', result_name, 'as', as_name))),
        '{"node_type":"MAP","left_node":' || df._step(body) || ',"query":'
        || to_json('{"over":' || to_json(result_name) || ',"as":' || to_json(as_name) || '}') || '}')
$$;

CREATE OR REPLACE FUNCTION df._map_fault(config jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(
        (SELECT format('unknown key ''%s'' in MAP; use over, as, return_exceptions', key)
         FROM jsonb_object_keys(config) AS k (key) WHERE key NOT IN ('over', 'as', 'return_exceptions') LIMIT 1),
        CASE WHEN NOT df._is_identifier(config -> 'over') THEN 'over in MAP must be the name of a result, not ' || left((config -> 'over')::text, 100)
             WHEN NOT df._is_identifier(config -> 'as') OR config ->> 'as' = 'input' THEN
                 'as in MAP must be a name for the element, not ' || left((config -> 'as')::text, 100)
             WHEN jsonb_typeof(config -> 'return_exceptions') <> 'boolean' THEN
                 'return_exceptions in MAP must be true or false, not ' || left((config -> 'return_exceptions')::text, 100) END)
$$;

CREATE OR REPLACE FUNCTION df._is_identifier(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT (jsonb_typeof(value) = 'string' AND value #>> '{}' ~ '^[A-Za-z_][A-Za-z0-9_]*$') IS TRUE $$;

CREATE OR REPLACE FUNCTION df._slug_fault(slug jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN NOT df._is_identifier(slug) OR length(slug #>> '{}') > 128 THEN
            left(slug::text, 100) || ' cannot be a slug; use 1 to 128 letters, digits and underscores, not starting with a digit'
        WHEN slug #>> '{}' IN ('run', 'flow_input', 'ctx', 'input') THEN
            left(slug::text, 100) || ' cannot be a slug: it is reserved; choose another' END
$$;

-- The first fault of a FLOW: its slug, then those of its steps, then each step, then circles.
CREATE OR REPLACE FUNCTION df._flow_fault(config jsonb, children jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    total integer := CASE jsonb_typeof(children) WHEN 'array' THEN jsonb_array_length(children) ELSE 0 END;
    known text[] := '{}';
    step jsonb;
    fault text := df._slug_fault(config -> 'slug');
BEGIN
    IF config - '{slug,steps}'::text[] <> '{}' THEN
        RETURN (SELECT format('unknown key ''%s'' in FLOW; use slug, steps', key)
                FROM jsonb_object_keys(config - '{slug,steps}'::text[]) AS k (key) LIMIT 1);
    ELSIF fault IS NOT NULL THEN
        RETURN 'flow: ' || fault;
    ELSIF jsonb_typeof(config -> 'steps') <> 'array' OR jsonb_array_length(config -> 'steps') <> total THEN
        RETURN format('steps in FLOW must be a list of %s, one for each of extra_nodes', total);
    END IF;
    FOR step IN SELECT s.step FROM jsonb_array_elements(config -> 'steps') AS s (step) LOOP
        IF jsonb_typeof(step) <> 'object' OR NOT step ? 'step' THEN
            RETURN 'a step in FLOW must be an object with the key ''step''';
        END IF;
        fault := df._slug_fault(step -> 'step');
        IF fault IS NOT NULL THEN
            RETURN 'step: ' || fault;
        ELSIF step ->> 'step' = ANY (known) THEN
            RETURN format('step ''%s'' is there twice; give one of them another slug', step ->> 'step');
        END IF;
        known := known || (step ->> 'step');
    END LOOP;
    FOR number IN 0 .. total - 1 LOOP
        step := config -> 'steps' -> number;
        fault := df._step_fault(step, children -> number, known);
        IF fault IS NOT NULL THEN
            RETURN format('step ''%s'': %s', step ->> 'step', fault);
        END IF;
    END LOOP;
    RETURN df._circle_fault(config -> 'steps');
END $$;

CREATE OR REPLACE FUNCTION df._step_fault(step jsonb, child jsonb, known text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    keys text[] := '{step,after,if,if_not,if_skipped,when_unmet,when_exhausted}';
    kind text := CASE WHEN child ->> 'node_type' = 'MAP' AND jsonb_typeof(child -> 'left_node') = 'object'
                      THEN child #>> '{left_node,node_type}' ELSE child ->> 'node_type' END;
    fault text;
BEGIN
    SELECT format('unknown key ''%s''; use %s', k.key, array_to_string(keys, ', ')) INTO fault
    FROM jsonb_object_keys(step) AS k (key) WHERE k.key <> ALL (keys) LIMIT 1;
    IF fault IS NOT NULL THEN
        RETURN fault;
    ELSIF kind NOT IN ('SQL', 'PYTHON', 'EXTERNAL', 'HTTP', 'HTTP_MULTIPART', 'SLEEP', 'WAIT_SCHEDULE', 'SIGNAL') THEN
        RETURN format('a step is a single leaf or a map of one, not %s', kind);
    ELSIF child ->> 'result_name' IS DISTINCT FROM step ->> 'step' THEN
        RETURN 'its node must bear its slug as result_name, not ' || coalesce(left((child -> 'result_name')::text, 100), 'null');
    ELSIF step ? 'after' AND jsonb_typeof(step -> 'after') <> 'array' THEN
        RETURN format('after must be a list of steps, not %s', jsonb_typeof(step -> 'after'));
    END IF;
    SELECT CASE WHEN jsonb_typeof(a.value) <> 'string' OR a.value #>> '{}' <> ALL (known)
                THEN format('it depends on %s, which is no step of this flow', left(a.value::text, 100))
                WHEN a.value = step -> 'step' THEN 'it depends on itself'
                ELSE format('it names ''%s'' twice in after', a.value #>> '{}') END INTO fault
    FROM jsonb_array_elements(step -> 'after') WITH ORDINALITY AS a (value, n)
    WHERE jsonb_typeof(a.value) <> 'string' OR a.value #>> '{}' <> ALL (known) OR a.value = step -> 'step'
       OR EXISTS (SELECT FROM jsonb_array_elements(step -> 'after') WITH ORDINALITY AS b (value, n) WHERE b.value = a.value AND b.n < a.n)
    ORDER BY a.n LIMIT 1;
    RETURN coalesce(fault, CASE WHEN child ->> 'node_type' = 'MAP' AND df._read_error(child ->> 'query') IS NULL
                                THEN df._over_fault(step, (child ->> 'query')::jsonb -> 'over') END,
                    df._condition_fault(step),
                    CASE WHEN child ->> 'node_type' = 'MAP' AND coalesce(step -> 'after', '[]') = '[]' AND step ? 'if'
                         THEN 'it goes over the run''s input, a list, which never contains the object in if; put the condition on a step before it' END);
END $$;

-- A map goes over one of the steps that it depends on, or over the run's input. One that says nothing of it has a fault of its own.
CREATE OR REPLACE FUNCTION df._over_fault(step jsonb, over jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT format('it goes over %s, which is none of the steps that it depends on', left(over::text, 100))
    WHERE over <> '"input"' AND NOT coalesce(step -> 'after' @> jsonb_build_array(over), false)
$$;

CREATE OR REPLACE FUNCTION df._condition_fault(step jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN jsonb_typeof(step -> 'if') <> 'object' THEN 'if must be a JSON object, not ' || jsonb_typeof(step -> 'if')
        WHEN jsonb_typeof(step -> 'if_not') <> 'object' THEN 'if_not must be a JSON object, not ' || jsonb_typeof(step -> 'if_not')
        WHEN jsonb_typeof(step -> 'if_skipped') <> 'null' AND NOT coalesce(step -> 'after' @> jsonb_build_array(step -> 'if_skipped'), false) THEN
            'if_skipped must be one of the steps that it depends on, not ' || left((step -> 'if_skipped')::text, 100)
        WHEN step ? 'when_unmet' AND coalesce(step ->> 'when_unmet', 'null') NOT IN ('skip', 'skip-cascade', 'fail') THEN
            'when_unmet must be skip, skip-cascade or fail, not ' || left((step -> 'when_unmet')::text, 100)
        WHEN step ? 'when_exhausted' AND coalesce(step ->> 'when_exhausted', 'null') NOT IN ('fail', 'skip', 'skip-cascade') THEN
            'when_exhausted must be fail, skip or skip-cascade, not ' || left((step -> 'when_exhausted')::text, 100) END
$$;

-- Steps that depend on each other: taking away those that depend on nothing leaves them.
CREATE OR REPLACE FUNCTION df._circle_fault(steps jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    after jsonb := (SELECT coalesce(jsonb_object_agg(s.step ->> 'step', coalesce(s.step -> 'after', '[]')), '{}') FROM jsonb_array_elements(steps) AS s (step));
    free text[];
    path text[];
BEGIN
    LOOP
        free := ARRAY(SELECT a.key FROM jsonb_each(after) AS a
                      WHERE NOT EXISTS (SELECT FROM jsonb_array_elements_text(a.value) AS d (slug) WHERE after ? d.slug));
        EXIT WHEN free = '{}';
        after := after - free;
    END LOOP;
    IF after = '{}' THEN
        RETURN NULL;
    END IF;
    path := ARRAY(SELECT s.step ->> 'step' FROM jsonb_array_elements(steps) WITH ORDINALITY AS s (step, n) WHERE after ? (s.step ->> 'step') ORDER BY s.n LIMIT 1);
    LOOP
        path := path || (SELECT d.slug FROM jsonb_array_elements_text(after -> path[cardinality(path)]) WITH ORDINALITY AS d (slug, n)
                         WHERE after ? d.slug ORDER BY d.n LIMIT 1);
        IF path[cardinality(path)] = ANY (path[:cardinality(path) - 1]) THEN
            RETURN 'steps depend on each other in a circle: '
                || array_to_string(path[array_position(path, path[cardinality(path)]):], ' -> ');
        END IF;
    END LOOP;
END $$;

-- A flow's maps over the run's input need a list, before anything is stored.
CREATE OR REPLACE FUNCTION df._check_maps(graph jsonb, input jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    map record;
BEGIN
    IF jsonb_typeof(input) = 'array' THEN
        RETURN;
    END IF;
    FOR map IN
        WITH walk AS MATERIALIZED (SELECT * FROM df._walk(graph))
        SELECT w.node ->> 'result_name' AS slug FROM walk w JOIN walk f ON f.node_id = w.parent_id
        WHERE f.node ->> 'node_type' = 'FLOW' AND w.node ->> 'node_type' = 'MAP' AND (w.node ->> 'query')::jsonb ->> 'over' = 'input'
        ORDER BY w.node_id LIMIT 1
    LOOP
        RAISE EXCEPTION 'map "%" goes over the run''s input, which must be a list, not %', map.slug,
            CASE jsonb_typeof(input) WHEN 'string' THEN 'text' ELSE 'a value of type ' || jsonb_typeof(input) END
            USING ERRCODE = '22023', HINT = 'Give a list as input, such as [1, 2, 3]; [] is fine.';
    END LOOP;
END $$;
