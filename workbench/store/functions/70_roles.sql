-- Who may use the workbench, who may look at whose runs, and what becomes of runs whose role is gone. Row security itself is in
-- the migrations: everything granted here reaches a role's own rows only.

-- Whose runs the caller may look at beside its own. Row security calls it, so it is replaced and never dropped.
CREATE OR REPLACE FUNCTION df.readable_owners() RETURNS oid[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce((SELECT array_agg(DISTINCT r.owner::oid) FROM df.readers r WHERE pg_has_role(r.reader, 'USAGE')), '{}');
END $$;

-- What a role needs to submit runs and to execute its own, one row a privilege; `columns` where not the whole table is meant.
-- Whose row it is, which run it belongs to and which run that was made from can never be changed: row security looks at that
-- only when rows are added.
CREATE OR REPLACE FUNCTION df._usage() RETURNS TABLE (relation regclass, privilege text, columns name[])
LANGUAGE sql STABLE AS $$
    SELECT ('df.' || quote_ident(u.name))::regclass, upper(p.privilege),
           CASE WHEN p.privilege = 'update' THEN
               ARRAY(SELECT a.attname FROM pg_attribute a
                     WHERE a.attrelid = ('df.' || quote_ident(u.name))::regclass AND a.attnum > 0 AND NOT a.attisdropped
                       AND a.attname NOT IN ('id', 'instance_id', 'submitted_by', 'restart_of_run_id') AND a.attgenerated = '' AND a.attidentity = ''
                     ORDER BY a.attnum) END
    FROM (VALUES ('instances', 'select insert update delete'), ('nodes', 'select insert update delete'),
                 ('values', 'select insert update delete'), ('signals', 'select insert update delete'),
                 ('iterations', 'select insert update delete'), ('scopes', 'select insert delete'), ('releasing', 'select insert delete'),
                 ('engines', 'select insert update delete'),
                 ('sessions', 'select insert update delete'), ('vars', 'select insert update delete'),
                 ('tasks', 'select insert update delete'), ('flows', 'select insert update delete'),
                 ('definitions', 'select insert delete'), ('attempts', 'select insert delete'),
                 ('readers', 'select insert delete'), ('settings', 'select'), ('schema_migrations', 'select'), ('engine_keys', 'usage')) AS u (name, privileges)
    CROSS JOIN LATERAL regexp_split_to_table(u.privileges, ' ') AS p (privilege)
$$;

CREATE OR REPLACE FUNCTION df._http_functions() RETURNS SETOF regprocedure
LANGUAGE sql STABLE AS $$
    SELECT to_regprocedure(f)
    FROM unnest(ARRAY['df.http(text,text,text,jsonb,integer)', 'df.http_multipart(text,text,jsonb,jsonb,integer)']) AS f
    WHERE to_regprocedure(f) IS NOT NULL
$$;

-- The role of that name, which is written as it is, without quotes.
CREATE OR REPLACE FUNCTION df._role(name text) RETURNS regrole
LANGUAGE plpgsql STABLE AS $$
DECLARE
    role oid := (SELECT r.oid FROM pg_roles r WHERE r.rolname = name);
BEGIN
    IF role IS NULL THEN
        RAISE EXCEPTION 'role % does not exist: nothing was changed', coalesce('"' || name || '"', 'NULL') USING ERRCODE = '42704',
            HINT = 'Give the name as it is stored, without quotes: df.grant_usage(''labUser'').';
    END IF;
    RETURN role;
END $$;

-- Lets a role submit workflows and execute its own. Adds only, and may be repeated. `include_http` lets it use HTTP steps, too;
-- `with_grant` lets it hand all this on.
CREATE OR REPLACE FUNCTION df.grant_usage(p_role text, include_http boolean DEFAULT false, with_grant boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    grantee regrole := df._role(p_role);
    function regprocedure;
BEGIN
    IF NOT has_schema_privilege('df', 'USAGE WITH GRANT OPTION') THEN
        RAISE EXCEPTION 'permission denied: role "%" may not let others use schema df', current_user USING ERRCODE = '42501',
            HINT = format('The owner of the schema can: SELECT df.grant_usage(%L).', p_role);
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA df TO %s%s', grantee, df._option(with_grant));
    PERFORM df._grant_tables(grantee, coalesce(with_grant, false), false);
    IF include_http THEN
        FOR function IN SELECT df._http_functions() LOOP
            PERFORM df._grant_function(function, grantee, with_grant);
        END LOOP;
    END IF;
    IF with_grant THEN
        FOREACH function IN ARRAY '{"df.metrics()","df.grant_usage(text,boolean,boolean)","df.revoke_usage(text)"}'::regprocedure[] LOOP
            PERFORM df._grant_function(function, grantee, true);
        END LOOP;
    END IF;
    RAISE NOTICE 'role "%" may start workflows and execute its own%', p_role,
        CASE WHEN include_http THEN ', with HTTP steps' ELSE '' END || CASE WHEN with_grant THEN ', and let others do so' ELSE '' END;
END $$;

CREATE OR REPLACE FUNCTION df._option(with_grant boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT CASE WHEN with_grant THEN ' WITH GRANT OPTION' ELSE '' END $$;

-- `only_missing` leaves alone what the role can do already, by whatever way.
CREATE OR REPLACE FUNCTION df._grant_tables(grantee regrole, with_grant boolean, only_missing boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT u.*, c.relkind = 'S' AS is_sequence FROM df._usage() u JOIN pg_class c ON c.oid = u.relation LOOP
        CONTINUE WHEN only_missing
            AND df._holds(grantee, item.relation, item.is_sequence, item.columns, item.privilege || df._option(with_grant));
        EXECUTE format('GRANT %s%s ON %s %s TO %s%s', item.privilege,
                       ' (' || (SELECT string_agg(quote_ident(c), ', ') FROM unnest(item.columns) c) || ')',
                       CASE WHEN item.is_sequence THEN 'SEQUENCE' ELSE 'TABLE' END, item.relation, grantee, df._option(with_grant));
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION df._holds(grantee regrole, relation regclass, is_sequence boolean, columns name[], privilege text)
RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN is_sequence THEN has_sequence_privilege(grantee, relation, privilege)
                WHEN columns IS NULL THEN has_table_privilege(grantee, relation, privilege)
                ELSE (SELECT bool_and(has_column_privilege(grantee, relation, c::text, privilege)) FROM unnest(columns) c) END
$$;

-- GRANT only warns when the grantor has the privilege without its grant option.
CREATE OR REPLACE FUNCTION df._grant_function(function regprocedure, grantee regrole, with_grant boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT has_function_privilege(function, 'EXECUTE WITH GRANT OPTION') THEN
        RAISE EXCEPTION 'permission denied: role "%" may not grant %: nothing was granted', current_user, function USING ERRCODE = '42501',
            HINT = 'The owner of schema df can, or can allow it with df.grant_usage(…, include_http => true, with_grant => true).';
    END IF;
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s%s', function, grantee, df._option(with_grant));
END $$;

-- Ends whatever a role may do in schema df, and what it let others do. Its runs stay. What was granted by a role for which the
-- caller cannot act is kept, and said.
CREATE OR REPLACE FUNCTION df.revoke_usage(p_role text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    grantee regrole := df._role(p_role);
    item record;
    kept text;
BEGIN
    IF grantee = (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'df') THEN
        RAISE EXCEPTION 'role "%" owns schema df: nothing was revoked', p_role USING ERRCODE = '42501',
            HINT = 'ALTER SCHEMA df OWNER TO …, and its objects likewise, takes it away.';
    END IF;
    FOR item IN SELECT * FROM df._grants_to(grantee) LOOP
        PERFORM df._revoke_as(item.grantor, format('REVOKE %s ON %s FROM %s CASCADE', item.privileges, item.object, grantee));
    END LOOP;
    BEGIN
        DELETE FROM df.readers r WHERE r.reader = grantee;
    EXCEPTION WHEN insufficient_privilege THEN NULL;
    END;
    SELECT string_agg(DISTINCT g.grantor::text, ', ') INTO kept FROM df._grants_to(grantee) g;
    IF kept IS NULL THEN
        RAISE NOTICE 'role "%" may not use schema df any more', p_role;
    ELSE
        RAISE NOTICE 'role "%" keeps what was granted by %: only that role or a superuser can revoke it', p_role, kept;
    END IF;
END $$;

-- Everything in schema df on which the role itself has been granted something, what (of a table ALL, which has its columns) and
-- by whom; the schema comes last.
CREATE OR REPLACE FUNCTION df._grants_to(grantee regrole) RETURNS TABLE (object text, grantor regrole, privileges text)
LANGUAGE sql STABLE AS $$
    SELECT g.object, (g.acl).grantor::regrole,
           CASE WHEN g.object LIKE 'TABLE %' THEN 'ALL' ELSE string_agg((g.acl).privilege_type, ', ') END
    FROM (
        SELECT 'FUNCTION ' || p.oid::regprocedure AS object, aclexplode(p.proacl) AS acl
        FROM pg_proc p WHERE p.pronamespace = 'df'::regnamespace
        UNION ALL
        SELECT CASE WHEN c.relkind = 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || c.oid::regclass, aclexplode(c.relacl)
        FROM pg_class c WHERE c.relnamespace = 'df'::regnamespace
        UNION ALL
        SELECT 'TABLE ' || c.oid::regclass, aclexplode(t.attacl)
        FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid WHERE c.relnamespace = 'df'::regnamespace
        UNION ALL
        SELECT 'SCHEMA df', aclexplode(n.nspacl) FROM pg_namespace n WHERE n.nspname = 'df') g
    WHERE (g.acl).grantee = _grants_to.grantee
    GROUP BY g.object, (g.acl).grantor ORDER BY g.object = 'SCHEMA df', g.object
$$;

-- PostgreSQL revokes in the name of the caller, or of the owner for whom it can act; for others one has to become that role.
CREATE OR REPLACE FUNCTION df._revoke_as(grantor regrole, statement text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    before text := current_setting('role');
    owner regrole := (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'df');
BEGIN
    IF grantor = df._me() OR (grantor = owner AND pg_has_role(owner, 'USAGE')) THEN
        EXECUTE statement;
    ELSE
        PERFORM set_config('role', (SELECT r.rolname FROM pg_roles r WHERE r.oid = grantor), true);
        EXECUTE statement;
        PERFORM set_config('role', before, true);
    END IF;
EXCEPTION WHEN insufficient_privilege THEN NULL;    -- the caller says what is left
END $$;

-- Lets a role that uses the workbench look at the caller's runs, those to come as well; it can change nothing about them.
CREATE OR REPLACE FUNCTION df.grant_read(role text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    given regrole := df._role(role);
BEGIN
    IF given = df._me() THEN
        RETURN;
    ELSIF NOT has_schema_privilege(given, 'df', 'USAGE') OR NOT has_table_privilege(given, 'df.instances', 'SELECT') THEN
        RAISE EXCEPTION 'role "%" may not use schema df, so it could not look: nothing was granted', role USING ERRCODE = '42501',
            HINT = format('Ask the owner of the schema for: SELECT df.grant_usage(%L).', role);
    END IF;
    INSERT INTO df.readers (owner, reader) VALUES (df._me(), given) ON CONFLICT DO NOTHING;
END $$;

-- Undoes df.grant_read; at once, also in sessions that are open.
CREATE OR REPLACE FUNCTION df.revoke_read(role text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    given regrole := df._role(role);
BEGIN
    DELETE FROM df.readers r WHERE r.owner = df._me() AND r.reader = given;
END $$;

-- Part of the sweep of engines that act for the schema's owner: fails the live runs of roles that have been dropped, at most so
-- many, and clears away what else they left. Returns how many; 0 to everybody else. Nobody else sees these runs.
CREATE OR REPLACE FUNCTION df._fail_orphaned_runs(most integer) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    gone oid[];
    run record;
    total bigint := 0;
BEGIN
    IF NOT pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'df.instances'::regclass), 'USAGE') THEN
        RETURN 0;
    END IF;
    gone := ARRAY(SELECT o FROM df._submitters() o WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = o));
    FOR run IN SELECT i.id, i.submitted_by::oid AS role FROM df.instances i
               WHERE i.submitted_by = ANY (gone) AND i.status IN ('pending', 'running')
               ORDER BY i.id LIMIT most FOR NO KEY UPDATE SKIP LOCKED LOOP
        PERFORM df._cancel(run.id, '');
        UPDATE df.instances i SET status = 'failed', error = jsonb_build_object('type', 'RoleDropped', 'message', format(
            'the role that submitted this run (oid %s) was dropped, so nobody may execute it any more. '
            'Start the workflow again as another role.', run.role))
        WHERE i.id = run.id;
        total := total + 1;
    END LOOP;
    DELETE FROM df.vars v WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = v.owner);
    DELETE FROM df.readers a WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = a.owner)
                                OR NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = a.reader);
    UPDATE df.engines e SET died_at = clock_timestamp(), ready = false
    WHERE e.stopped_at IS NULL AND e.died_at IS NULL AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = e.role);
    RETURN total;
END $$;

-- Roles that have live runs: one look into the index for each, however many runs there are.
CREATE OR REPLACE FUNCTION df._submitters() RETURNS SETOF oid
LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    WITH RECURSIVE each AS (
        (SELECT i.submitted_by::oid AS role FROM df.instances i WHERE i.status IN ('pending', 'running') ORDER BY i.submitted_by LIMIT 1)
        UNION ALL
        SELECT (SELECT i.submitted_by::oid FROM df.instances i WHERE i.status IN ('pending', 'running') AND i.submitted_by > e.role
                ORDER BY i.submitted_by LIMIT 1)
        FROM each e WHERE e.role IS NOT NULL
    )
    SELECT role FROM each WHERE role IS NOT NULL
$$;
