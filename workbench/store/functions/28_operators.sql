-- The operators and what they call: `a ~> b`, `step |=> 'name'`, `a & b`, `a | b`, `c ?> t !> e`, `@> body`. They live in `public`,
-- where every search_path finds them; in `df` when the installer may not create there, or when somebody else's has the place.

CREATE OR REPLACE FUNCTION df.as_op(fut text, name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT df."as"(fut, name) $$;

-- Half an IF: the operands stay text until `!>` brings the third.
CREATE OR REPLACE FUNCTION df.if_then_op(condition text, then_branch text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT jsonb_build_object('_partial_if', true, 'condition', condition, 'then_branch', then_branch)::text
$$;

CREATE OR REPLACE FUNCTION df.if_else_op(partial text, else_branch text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    half jsonb := partial::jsonb;
BEGIN
    IF half -> '_partial_if' IS DISTINCT FROM 'true' OR half ->> 'condition' IS NULL OR half ->> 'then_branch' IS NULL THEN
        RAISE EXCEPTION 'Invalid if-then-else: left side of !> must be a ?> expression' USING ERRCODE = '22023',
            HINT = 'All operators bind alike and to the left: put parentheses around branches, as in c ?> (t ~> u) !> e.';
    END IF;
    RETURN df."if"(half ->> 'condition', half ->> 'then_branch', else_branch);
END $$;

CREATE OR REPLACE FUNCTION df.loop_prefix_op(body text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT df.loop(body) $$;

DO $$
DECLARE
    wanted record;
    place text;
    ours text[] := '{}';
    theirs text[] := '{}';
BEGIN
    FOR wanted IN
        SELECT name, func, args, func || '(' || array_to_string(args, ',') || ')' AS signature
        FROM (VALUES ('~>', 'df.seq', '{text,text}'::text[]), ('|=>', 'df.as_op', '{text,text}'), ('&', 'df."join"', '{text,text}'),
                     ('|', 'df.race', '{text,text}'), ('?>', 'df.if_then_op', '{text,text}'), ('!>', 'df.if_else_op', '{text,text}'),
                     ('@>', 'df.loop_prefix_op', '{text}')) AS v (name, func, args)
    LOOP
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_operator o
            WHERE o.oprname = wanted.name AND o.oprcode = wanted.signature::regprocedure
              AND o.oprnamespace IN (to_regnamespace('public'), 'df'::regnamespace));
        place := 'df';
        IF to_regnamespace('public') IS NULL OR NOT has_schema_privilege('public', 'CREATE') THEN
            ours := ours || wanted.name;
        ELSIF EXISTS (
            SELECT FROM pg_operator o
            WHERE o.oprname = wanted.name AND o.oprnamespace = to_regnamespace('public') AND o.oprright = 'text'::regtype
              AND o.oprleft = CASE cardinality(wanted.args) WHEN 2 THEN 'text'::regtype::oid ELSE 0 END) THEN
            theirs := theirs || format('%s (call %s)', wanted.name, wanted.func);
        ELSE
            place := 'public';
        END IF;
        EXECUTE format('CREATE OPERATOR %I.%s (%s RIGHTARG = text, FUNCTION = %s)', place, wanted.name,
                       CASE cardinality(wanted.args) WHEN 2 THEN 'LEFTARG = text,' ELSE '' END, wanted.func);
    END LOOP;
    IF ours <> '{}' THEN
        RAISE NOTICE 'operators % were made in schema df, because % may not create in schema public', array_to_string(ours, ' '), current_user
            USING HINT = 'Add df to the search_path of the roles that use them: ALTER ROLE … SET search_path = "$user", public, df.';
    END IF;
    IF theirs <> '{}' THEN
        RAISE NOTICE 'operators on text in schema public belong to somebody else and were left alone; the workbench''s were made in schema df: %',
            array_to_string(theirs, ', ') USING HINT = 'Put df before public in the search_path, or call the functions instead.';
    END IF;
END $$;
