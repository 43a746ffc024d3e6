-- Steps that workers execute which are no engines: any program that can speak SQL. An engine resolves such a step's input and offers
-- it; a worker claims it for a while, and reports; an engine decides what follows. A worker is alive as long as its lease.

-- Claims the oldest steps for these handlers, at most `limit` and as many as the activity ceiling leaves. Who has not reported or
-- extended its lease when that has passed is taken for lost. `index` is that of an element of a map, from 0.
-- A worker may leave its transaction open: it must hold up nobody. So nothing is waited for and the gate is not taken (the ceiling holds
-- but for what is claimed at the same moment), and the share of the run's lock has engines pass the run over, not wait for it.
CREATE OR REPLACE FUNCTION df.claim_tasks(handlers text[], "limit" integer DEFAULT 1, lease interval DEFAULT '1 minute')
RETURNS TABLE (run_id text, node_id integer, index integer, input jsonb, attempt integer, token uuid, handler text)
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    used record;
    chosen record;
BEGIN
    IF coalesce(cardinality(handlers), 0) = 0 THEN
        RAISE EXCEPTION 'df.claim_tasks() needs the names of handlers, such as ''{resize}'': nothing was claimed' USING ERRCODE = '22023';
    ELSIF "limit" IS NULL OR "limit" < 1 THEN
        RAISE EXCEPTION 'invalid limit % for df.claim_tasks(): expected at least 1', coalesce("limit"::text, 'NULL') USING ERRCODE = '22023';
    END IF;
    PERFORM df._check_lease(lease);
    SELECT * INTO used FROM df._in_use();
    SELECT array_agg(o.instance_id) AS runs, array_agg(o.node_id) AS nodes INTO chosen FROM (
        SELECT t.instance_id, t.node_id
        FROM df.tasks t JOIN df.nodes n ON n.instance_id = t.instance_id AND n.node_id = t.node_id JOIN df.instances i ON i.id = t.instance_id
        WHERE t.token IS NULL AND t.submitted_by = df._me() AND t.handler = ANY (handlers) AND n.status = 'waiting'
        ORDER BY t.offered_at LIMIT greatest(0, least("limit", used.most_activity - used.activity))
        FOR SHARE OF i SKIP LOCKED FOR NO KEY UPDATE OF t, n SKIP LOCKED) o;
    RETURN QUERY
        WITH taken AS (
            UPDATE df.tasks t SET token = gen_random_uuid(), lease_until = clock_timestamp() + lease
            FROM unnest(chosen.runs, chosen.nodes) AS c (run, node) WHERE t.instance_id = c.run AND t.node_id = c.node
            RETURNING t.*
        ), begun AS (
            UPDATE df.nodes n SET status = 'running', token = t.token, engine_id = NULL, started_at = df.now()
            FROM taken t WHERE n.instance_id = t.instance_id AND n.node_id = t.node_id
            RETURNING n.instance_id, n.node_id, n.attempt, n.element
        )
        SELECT t.instance_id, t.node_id, b.element[cardinality(b.element)], t.input, b.attempt + 1, t.token, t.handler
        FROM taken t JOIN begun b ON b.instance_id = t.instance_id AND b.node_id = t.node_id ORDER BY t.offered_at, t.instance_id, t.node_id;
END $$;

CREATE OR REPLACE FUNCTION df._check_lease(lease interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF lease IS NULL OR lease <= interval '0' OR lease > interval '30 days' THEN
        RAISE EXCEPTION 'invalid lease %: expected more than 0, to 30 days', coalesce(lease::text, 'NULL') USING ERRCODE = '22023';
    END IF;
END $$;

-- The step has succeeded. False when the claim does not count any more: its lease has passed, the step was cancelled, or somebody
-- has reported already; nothing changes then.
CREATE OR REPLACE FUNCTION df.complete_task(token uuid, output jsonb DEFAULT 'null') RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(output::text) > 16777216 THEN
        RAISE EXCEPTION 'the output is larger than 16 MiB: nothing was reported' USING ERRCODE = '54000',
            HINT = 'Report less, or write it to a table.';
    END IF;
    RETURN df._report_task(token, jsonb_build_object('output', coalesce(output, 'null')));
END $$;

-- The attempt has failed; the step is tried again as its policy says, after `retry_delay` if that is given. False as above.
CREATE OR REPLACE FUNCTION df.fail_task(token uuid, error text, retry_delay interval DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF retry_delay IS NOT NULL THEN
        PERFORM df._check_delay(retry_delay);
    END IF;
    RETURN df._report_task(token, jsonb_build_object(
        'error', left(coalesce(nullif(error, ''), 'the worker gave no reason'), 10000), 'delay', extract(epoch FROM retry_delay)));
END $$;

-- The worker is still at it: its lease ends so long from now. False as above; then it may stop.
CREATE OR REPLACE FUNCTION df.extend_task(token uuid, lease interval DEFAULT '1 minute') RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    PERFORM df._check_lease(lease);
    UPDATE df.tasks t SET lease_until = clock_timestamp() + lease
    FROM df.nodes n
    WHERE t.token = token AND t.report IS NULL AND t.submitted_by = df._me()
      AND n.instance_id = t.instance_id AND n.node_id = t.node_id AND n.status = 'running' AND n.token = t.token;
    RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION df._report_task(claim uuid, said jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE df.tasks t SET report = said
    FROM df.nodes n
    WHERE t.token = claim AND t.report IS NULL AND t.submitted_by = df._me()
      AND n.instance_id = t.instance_id AND n.node_id = t.node_id AND n.status = 'running' AND n.token = t.token;
    IF FOUND THEN
        PERFORM df._tell(df._me());
        RETURN true;
    END IF;
    -- Cancelled meanwhile: what it held is free.
    DELETE FROM df.tasks t WHERE t.token = claim AND t.report IS NULL AND t.submitted_by = df._me();
    RETURN false;
END $$;

-- What engines call.

-- Steps whose input is known now wait for a worker.
CREATE OR REPLACE FUNCTION df._offer(at timestamptz, offered json) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO df.tasks AS t (instance_id, node_id, submitted_by, handler, input, offered_at)
    SELECT c.run, c.node_id, df._me(), c.handler, c.input, at
    FROM json_to_recordset(offered) AS c (run text, node_id integer, handler text, input jsonb)
    ON CONFLICT (instance_id, node_id) DO UPDATE
    SET handler = excluded.handler, input = excluded.input, offered_at = excluded.offered_at, token = NULL, lease_until = NULL, report = NULL
$$;

-- Locks running runs about which workers have reported, and that are not locked yet.
CREATE OR REPLACE FUNCTION df._reported(most integer, locked text[]) RETURNS text[]
LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    -- They came when the run was just ending.
    DELETE FROM df.tasks t WHERE t.report IS NOT NULL AND t.submitted_by = df._me()
        AND NOT EXISTS (SELECT FROM df.instances i WHERE i.id = t.instance_id AND i.status = 'running');
    RETURN ARRAY(SELECT i.id FROM df.instances i
                 WHERE i.id = ANY (ARRAY(SELECT DISTINCT t.instance_id FROM df.tasks t
                                         WHERE t.report IS NOT NULL AND t.submitted_by = df._me() AND t.instance_id <> ALL (locked)))
                   AND i.submitted_by = df._me() AND i.status = 'running' AND i.parked IS NULL
                 LIMIT most FOR NO KEY UPDATE SKIP LOCKED);
END $$;

-- The reports about runs that the caller has locked, as far as their claims are current. They are gone with the transaction that
-- reads them.
CREATE OR REPLACE FUNCTION df._reports(locked text[])
RETURNS TABLE (instance_id text, node_id integer, token uuid, started_at timestamptz, input text, output text, error text, delay double precision)
LANGUAGE sql SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    WITH read AS (
        DELETE FROM df.tasks t WHERE t.instance_id = ANY (locked) AND t.report IS NOT NULL RETURNING t.*
    )
    SELECT r.instance_id, r.node_id, r.token, n.started_at, r.input::text, (r.report -> 'output')::text, r.report ->> 'error', (r.report ->> 'delay')::float8
    FROM read r JOIN df.nodes n ON n.instance_id = r.instance_id AND n.node_id = r.node_id AND n.token = r.token
$$;

-- Workers whose lease has passed are lost; what they did is refused from here on.
CREATE OR REPLACE FUNCTION df._end_leases() RETURNS void
LANGUAGE sql SET enable_seqscan = off AS $$
    DELETE FROM df.tasks d USING (
        SELECT t.instance_id, t.node_id FROM df.tasks t
        WHERE t.token IS NOT NULL AND t.report IS NULL AND t.lease_until < clock_timestamp() AND t.submitted_by = df._me()
        FOR UPDATE SKIP LOCKED) t  -- who holds one is just reporting
    WHERE d.instance_id = t.instance_id AND d.node_id = t.node_id
$$;

-- Whether workers that are no engines have claimed something.
CREATE OR REPLACE FUNCTION df._has_leases() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, df, pg_temp AS $$
    SELECT EXISTS (SELECT FROM df.tasks t WHERE t.token IS NOT NULL AND t.report IS NULL AND t.lease_until > clock_timestamp())
$$;
