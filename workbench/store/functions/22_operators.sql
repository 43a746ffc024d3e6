-- The operators `a ~> b` and `step |=> 'name'`, and what they call. They live in `public`, where every search_path finds them;
-- in `df` when the installer may not create there, or when somebody else's operator has the place.

CREATE OR REPLACE FUNCTION df.as_op(fut text, name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT df."as"(fut, name) $$;

DO $$
DECLARE
    wanted record;
    place text;
BEGIN
    FOR wanted IN VALUES ('~>', 'df.seq'), ('|=>', 'df.as_op') LOOP
        CONTINUE WHEN EXISTS (
            SELECT FROM pg_operator o
            WHERE o.oprname = wanted.column1 AND o.oprcode = (wanted.column2 || '(text,text)')::regprocedure
              AND o.oprnamespace IN (to_regnamespace('public'), 'df'::regnamespace));
        place := 'df';
        IF to_regnamespace('public') IS NULL OR NOT has_schema_privilege('public', 'CREATE') THEN
            RAISE NOTICE 'operator % was made in schema df, because % may not create in schema public', wanted.column1, current_user
                USING HINT = 'Add df to the search_path of the roles that use it: ALTER ROLE … SET search_path = "$user", public, df.';
        ELSIF to_regoperator(format('public.%s(text,text)', wanted.column1)) IS NOT NULL THEN
            RAISE NOTICE 'operator public.%(text,text) belongs to somebody else and was left alone: the workbench''s was made in schema df',
                wanted.column1 USING HINT = 'Put df before public in the search_path, or call ' || wanted.column2 || '() instead.';
        ELSE
            place := 'public';
        END IF;
        EXECUTE format('CREATE OPERATOR %I.%s (LEFTARG = text, RIGHTARG = text, FUNCTION = %s)', place, wanted.column1, wanted.column2);
    END LOOP;
END $$;
