-- Who may see and write what. A role writes its own runs only, and adds only to its own: nobody can put rows in the way of
-- another role's engine. Reading is separate, so that a colleague may look on.
-- Policies call no private function of schema df: those are made anew at each installation, which a policy would forbid.

-- Who lets whom look at their runs.
CREATE TABLE df.readers (
    owner regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    reader regrole NOT NULL,
    PRIMARY KEY (owner, reader)
);

-- Functions that are not for everybody, once that has been arranged: what is granted afterwards stays, to PUBLIC too.
CREATE TABLE df.closed_functions (
    signature text PRIMARY KEY,
    function oid NOT NULL                            -- one that was dropped and made anew is another
);

ALTER TABLE df.readers ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON df.readers USING (owner = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY mine ON df.readers FOR SELECT USING (pg_has_role(reader, 'USAGE'));
-- Read by a policy below as whoever queries, also as a role to which an administrator gave less than df.grant_usage does.
GRANT SELECT ON df.readers TO PUBLIC;

-- Its body is in functions/70_roles.sql.
CREATE FUNCTION df.readable_owners() RETURNS oid[] LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN '{}'; END $$;

-- An engine meets its own rows only: there the array is never made, and a function in a subquery costs a plan next to nothing
-- (with the table itself there, a checkpoint took a third longer).
DO $$
DECLARE
    name text;
    me text := 'submitted_by = (SELECT quote_ident(current_user)::regrole)';
BEGIN
    FOREACH name IN ARRAY '{instances,definitions,nodes,attempts,values,signals,iterations}'::text[] LOOP
        EXECUTE format('DROP POLICY own ON df.%I', name);
        EXECUTE format('CREATE POLICY own_and_shared ON df.%I FOR SELECT '
                       'USING (%s OR submitted_by = ANY ((SELECT df.readable_owners())::oid[]))', name, me);
        EXECUTE format('CREATE POLICY own_insert ON df.%I FOR INSERT WITH CHECK (%s)', name, me);
        EXECUTE format('CREATE POLICY own_update ON df.%I FOR UPDATE USING (%s)', name, me);
        EXECUTE format('CREATE POLICY own_delete ON df.%I FOR DELETE USING (%s)', name, me);
    END LOOP;
    FOREACH name IN ARRAY '{definitions,nodes,values,signals,iterations}'::text[] LOOP
        EXECUTE format('CREATE POLICY own_run ON df.%1$I AS RESTRICTIVE FOR INSERT WITH CHECK (EXISTS '
                       '(SELECT FROM df.instances i WHERE i.id = %1$I.instance_id AND i.submitted_by = %1$I.submitted_by))', name);
    END LOOP;
END $$;

-- Every checkpoint writes attempts, so there the key does what that policy does elsewhere: another role's row is in nobody's way.
ALTER TABLE df.attempts DROP CONSTRAINT attempts_pkey, ADD PRIMARY KEY (instance_id, node_id, rev, submitted_by);

-- Everybody sees who is alive; nobody speaks for another role's engine.
ALTER TABLE df.engines ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON df.engines USING (role = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY everybody ON df.engines FOR SELECT USING (true);

ALTER TABLE df.sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON df.sessions USING (EXISTS (
    SELECT FROM df.engines e WHERE e.id = engine_id AND e.role = (SELECT quote_ident(current_user)::regrole)));
