-- After every installation: closes new functions that are not for everybody, and lets those who use the schema keep up with it.

DO $$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT f.signature, to_regprocedure(f.signature) AS function FROM unnest(ARRAY[
                    'df.http(text,text,text,jsonb,integer)', 'df.http_multipart(text,text,jsonb,jsonb,integer)',
                    'df.metrics()', 'df.grant_usage(text,boolean,boolean)', 'df.revoke_usage(text)']) AS f (signature)
                WHERE to_regprocedure(f.signature) IS NOT NULL LOOP
        -- Once for each: whoever grants it to PUBLIC afterwards means it.
        IF NOT EXISTS (SELECT FROM df.closed_functions c WHERE c.signature = item.signature AND c.function = item.function) THEN
            EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', item.function);
            INSERT INTO df.closed_functions AS c VALUES (item.signature, item.function)
            ON CONFLICT (signature) DO UPDATE SET function = excluded.function;
        END IF;
    END LOOP;
    -- Tables and columns may be new since a role was let in.
    FOR item IN SELECT a.grantee::regrole AS role, bool_or(a.is_grantable) AS grantable
                FROM pg_class c, aclexplode(c.relacl) a
                WHERE c.oid = 'df.instances'::regclass AND a.privilege_type = 'INSERT' AND a.grantee NOT IN (0, c.relowner)
                GROUP BY a.grantee LOOP
        PERFORM df._grant_tables(item.role, item.grantable, true);
    END LOOP;
END $$;
