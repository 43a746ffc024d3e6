-- Deleting what is old: lineages that have ended, whole, and engines that have.

-- How long an ended lineage is kept, by the setting `retention`; NULL: for ever.
CREATE OR REPLACE FUNCTION df._retention() RETURNS interval
LANGUAGE sql STABLE AS $$ SELECT df._read_retention(df._setting('retention')) $$;

-- A number of days, a length of time, or "forever".
CREATE OR REPLACE FUNCTION df._read_retention(value jsonb) RETURNS interval
LANGUAGE sql STABLE AS $$
    SELECT CASE jsonb_typeof(value) WHEN 'number' THEN interval '1 day' * (value #>> '{}')::float8
                WHEN 'string' THEN nullif(value #>> '{}', 'forever')::interval END
$$;

CREATE OR REPLACE FUNCTION df._check_retention(value jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    length interval;
BEGIN
    length := CASE WHEN value = '"forever"' THEN interval '1 day' ELSE df._read_retention(value) END;
    IF length IS NULL OR length <= interval '0' OR clock_timestamp() - length > clock_timestamp() THEN
        RAISE invalid_parameter_value;
    END IF;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'setting "retention" takes a number of days, a length of time such as "30 days", or "forever", and not %', value
        USING ERRCODE = '22023';
END $$;

-- Part of every engine's sweep: deletes ended lineages of which every run ended longer ago than `retention`, with all that belongs to
-- them: about `most` runs, and fewer when they are large. Returns how many; as long as it is not 0, more may be left. Waits for nobody:
-- what another engine is deleting is left to it.
-- The caller's own runs, and for who acts for the schema's owner those of dropped roles.
CREATE OR REPLACE FUNCTION df._prune(most integer) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off SET enable_mergejoin = off AS $$
DECLARE
    cutoff timestamptz := df.now() - df._retention();
    roles oid[];
    roots text[];
    locked text[];
    runs text[];
BEGIN
    IF cutoff IS NULL THEN
        RETURN 0;
    END IF;
    roles := df._roles_to_prune();
    PERFORM df._prune_engines(roles, most);
    roots := df._ended_lineages(roles, cutoff, most);
    IF roots = '{}' THEN
        RETURN 0;
    END IF;
    -- Who is just making a retry holds its source: that lineage is left alone. Nobody can make one of a run that is locked here.
    locked := ARRAY(SELECT i.id FROM df.instances i WHERE i.id IN (SELECT m.id FROM df._members(roots) m)
                    ORDER BY i.id FOR UPDATE SKIP LOCKED);
    -- Read again in a later statement: retries may have been made before the lock.
    runs := ARRAY(SELECT unnest(w.ids) FROM (
                      SELECT array_agg(m.id) AS ids, bool_and(l.id IS NOT NULL) AS whole
                      FROM df._members(roots) m LEFT JOIN unnest(locked) AS l (id) ON l.id = m.id GROUP BY m.root) w WHERE w.whole);
    DELETE FROM df.attempts a WHERE a.instance_id = ANY (runs);
    DELETE FROM df.values v WHERE v.instance_id = ANY (runs);
    DELETE FROM df.signals s WHERE s.instance_id = ANY (runs);
    -- In one statement: a run may go only together with the one it was made from. Definitions, nodes and iterations follow.
    DELETE FROM df.instances i WHERE i.id = ANY (runs);
    RETURN cardinality(runs);
END $$;

-- Runs of these lineages, each with the first of its lineage.
CREATE OR REPLACE FUNCTION df._members(roots text[]) RETURNS TABLE (root text, id text, finished_at timestamptz)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tree AS (
        SELECT i.id AS root, i.id, i.finished_at FROM df.instances i WHERE i.id = ANY (roots)
        UNION ALL
        SELECT t.root, i.id, i.finished_at FROM tree t JOIN df.instances i ON i.restart_of_run_id = t.id
    )
    SELECT * FROM tree
$$;

-- The first runs of lineages that may go, the oldest first: as many as have about `most` runs together, or 50 times as many nodes
-- and attempts, and at least one.
CREATE OR REPLACE FUNCTION df._ended_lineages(roles oid[], cutoff timestamptz, most integer) RETURNS text[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_mergejoin = off SET enable_hashjoin = off SET enable_bitmapscan = off AS $$
DECLARE
    role oid;
    candidate text;
    lineage record;
    total bigint := 0;
    size bigint := 0;
    roots text[] := '{}';
BEGIN
    FOREACH role IN ARRAY roles LOOP
        FOR candidate IN SELECT i.id FROM df.instances i
                         WHERE i.submitted_by = role AND i.restart_of_run_id IS NULL AND i.finished_at < cutoff ORDER BY i.finished_at LOOP
            SELECT count(*) AS runs, bool_and(coalesce(m.finished_at < cutoff, false)) AS old,
                   sum((SELECT count(*) FROM df.nodes n WHERE n.instance_id = m.id) + (SELECT count(*) FROM df.attempts a WHERE a.instance_id = m.id)) AS size
            INTO lineage FROM df._members(ARRAY[candidate]) m;
            CONTINUE WHEN NOT lineage.old;
            roots := roots || candidate;
            total := total + lineage.runs;
            size := size + lineage.size;
            IF total >= most OR size >= most * 50 THEN
                RETURN roots;
            END IF;
        END LOOP;
    END LOOP;
    RETURN roots;
END $$;

-- The caller, and for who acts for the schema's owner the dropped roles that have ended runs: one look into the index a role.
CREATE OR REPLACE FUNCTION df._roles_to_prune() RETURNS oid[]
LANGUAGE plpgsql STABLE SET enable_seqscan = off AS $$
BEGIN
    IF NOT pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'df.instances'::regclass), 'USAGE') THEN
        RETURN ARRAY[df._me()::oid];
    END IF;
    RETURN df._me()::oid || ARRAY(
        WITH RECURSIVE each AS (
            (SELECT i.submitted_by::oid AS role FROM df.instances i
             WHERE i.finished_at IS NOT NULL AND i.restart_of_run_id IS NULL ORDER BY i.submitted_by LIMIT 1)
            UNION ALL
            SELECT (SELECT i.submitted_by::oid FROM df.instances i
                    WHERE i.finished_at IS NOT NULL AND i.restart_of_run_id IS NULL AND i.submitted_by > e.role ORDER BY i.submitted_by LIMIT 1)
            FROM each e WHERE e.role IS NOT NULL
        )
        SELECT e.role FROM each e WHERE e.role IS NOT NULL AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = e.role));
END $$;

-- Engines that ended longer ago than that, by the server's clock as all that concerns engines. Row security leaves to ordinary
-- roles their own.
CREATE OR REPLACE FUNCTION df._prune_engines(roles oid[], most integer) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM df.engines e WHERE e.id IN (
        SELECT o.id FROM df.engines o
        WHERE (o.role = ANY (roles) OR NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.role))
          AND coalesce(o.died_at, o.stopped_at) < clock_timestamp() - df._retention()
          AND NOT EXISTS (SELECT FROM df.nodes n WHERE n.engine_id = o.id AND n.status = 'running' AND n.token IS NOT NULL)
        LIMIT most FOR UPDATE SKIP LOCKED)
$$;
