-- Building steps that direct others: join, race, if, loop, break; and what their configs must say, in the words of
-- workbench/graph/configs.py. What they mean is the engine's business.

CREATE OR REPLACE FUNCTION df."join"(a text, b text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT '{"node_type":"JOIN","left_node":' || df._step(a) || ',"right_node":' || df._step(b) || '}'
$$;

CREATE OR REPLACE FUNCTION df.join3(a text, b text, c text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT '{"node_type":"JOIN","left_node":' || df._step(a) || ',"right_node":' || df._step(b) || ',"extra_nodes":[' || df._step(c) || ']}'
$$;

CREATE OR REPLACE FUNCTION df.race(a text, b text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT '{"node_type":"RACE","left_node":' || df._step(a) || ',"right_node":' || df._step(b) || '}'
$$;

CREATE OR REPLACE FUNCTION df."if"(condition text, then_branch text, else_branch text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT '{"node_type":"IF","left_node":' || df._step(then_branch) || ',"right_node":' || df._step(else_branch)
           || ',"condition_node":' || df._step(condition) || '}'
$$;

CREATE OR REPLACE FUNCTION df.if_rows(result_name text, then_branch text, else_branch text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT coalesce(
        df._refuse(df._if_rows_fault(jsonb_build_object('condition_type', 'result_has_rows', 'result_name', result_name))),
        '{"node_type":"IF","left_node":' || df._step(then_branch) || ',"right_node":' || df._step(else_branch) || ',"query":'
        || to_json('{"condition_type":"result_has_rows","result_name":' || to_json(result_name) || '}') || '}')
$$;

-- Asks after the body. `min_interval` is from the start of one iteration to the start of the next, at least.
CREATE OR REPLACE FUNCTION df.loop(body text, condition text DEFAULT NULL, min_interval interval DEFAULT '1 second') RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    pace numeric := CASE WHEN isfinite(min_interval) THEN trim_scale(extract(epoch FROM min_interval)) END;
BEGIN
    IF body IS NULL THEN
        PERFORM df._refuse('df.loop: body is required and cannot be NULL');
    ELSIF pace IS NULL OR pace NOT BETWEEN 0 AND df._max_seconds() THEN
        PERFORM df._refuse('df.loop: min_interval must be at least 0 and at most 1,000 years, not ' || coalesce(min_interval::text, 'NULL'));
    END IF;
    RETURN '{"node_type":"LOOP","left_node":' || df._step(body)
        || coalesce(',"condition_node":' || df._step(condition), '')
        || CASE WHEN pace = 1 THEN '' ELSE ',"options":{"min_interval":' || pace || '}' END || '}';
END $$;

-- Ends the innermost loop around it; the value is that of the loop.
CREATE OR REPLACE FUNCTION df.break(value text DEFAULT NULL) RETURNS text
LANGUAGE sql VOLATILE AS $$
    SELECT '{"node_type":"BREAK","query":' || to_json('{"break_value":' || coalesce(to_json(value)::text, 'null') || '}') || '}'
$$;

-- Raises what a constructor found; NULL when it found nothing.
CREATE OR REPLACE FUNCTION df._refuse(fault text) RETURNS text
LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
    RAISE EXCEPTION '%', fault USING ERRCODE = '22023';
END $$;

CREATE OR REPLACE FUNCTION df._if_rows_fault(config jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN config ->> 'condition_type' IS DISTINCT FROM 'result_has_rows' THEN 'condition_node is missing; IF nodes need a condition'
        WHEN jsonb_typeof(config -> 'result_name') IS DISTINCT FROM 'string' THEN
            'query in IF lacks ''result_name''; df.if_rows needs a result''s name'
        WHEN config ->> 'result_name' = '' THEN 'df.if_rows: result name cannot be empty'
        WHEN config ->> 'result_name' !~ '^[A-Za-z_][A-Za-z0-9_]*$' THEN
            format('df.if_rows: ''%s'' is not a valid identifier; name a result as |=> does', left(config ->> 'result_name', 100))
    END
$$;

CREATE OR REPLACE FUNCTION df._break_fault(config jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT 'break_value in BREAK must be text or null, not ' || jsonb_typeof(config -> 'break_value')
    WHERE jsonb_typeof(config -> 'break_value') NOT IN ('string', 'null')
$$;
