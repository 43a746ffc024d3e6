-- Variables: `{name}` in steps. Each role has its own, superusers too; a start copies them into the run, so that nothing that is
-- set later reaches it.

CREATE OR REPLACE FUNCTION df.setvar(name text, value text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._refuse_in_workflow('df.setvar', 'a run keeps the variables it was started with');
    INSERT INTO df.vars AS v (owner, name, value) VALUES (df._me(), $1, $2)
    ON CONFLICT ON CONSTRAINT vars_pkey DO UPDATE SET value = excluded.value;
    PERFORM df._mark_helper('df.setvar');
    RETURN 'OK';
END $$;

-- The table as it is now, inside a workflow as well.
CREATE OR REPLACE FUNCTION df.getvar(name text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$ SELECT v.value FROM df.vars v WHERE v.owner = df._me() AND v.name = $1 $$;

CREATE OR REPLACE FUNCTION df.unsetvar(name text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
BEGIN
    PERFORM df._refuse_in_workflow('df.unsetvar', 'a run keeps the variables it was started with');
    DELETE FROM df.vars v WHERE v.owner = df._me() AND v.name = $1;
    PERFORM df._mark_helper('df.unsetvar');
    RETURN 'OK';
END $$;

CREATE OR REPLACE FUNCTION df.clearvars() RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM df._refuse_in_workflow('df.clearvars', 'a run keeps the variables it was started with');
    DELETE FROM df.vars v WHERE v.owner = df._me();
    PERFORM df._mark_helper('df.clearvars');
    RETURN 'OK';
END $$;

CREATE OR REPLACE FUNCTION df._refuse_in_workflow(helper text, reason text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF df._in_workflow() THEN
        RAISE EXCEPTION '%() cannot be called inside a workflow - %. Call it before df.start().', helper, reason USING ERRCODE = '55000';
    END IF;
END $$;
