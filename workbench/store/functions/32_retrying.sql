-- Trying again: nearer policies than the run's, delays that a step asks for, and not waiting any longer.

-- What an inner df.with_retry said already stays; keys in the order of workbench/graph/policies.py.
CREATE OR REPLACE FUNCTION df.with_retry(
    fut text, max_attempts integer DEFAULT NULL, max_backoff interval DEFAULT NULL, base_delay interval DEFAULT NULL
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    graph text := df._step(fut);
    given jsonb := jsonb_strip_nulls(jsonb_build_object(
        'max_attempts', max_attempts, 'max_backoff', extract(epoch FROM max_backoff), 'base_delay', extract(epoch FROM base_delay)));
    retry jsonb;
BEGIN
    IF graph IS NULL THEN
        RETURN NULL;
    ELSIF max_attempts < 1 THEN
        RAISE EXCEPTION 'invalid max_attempts % for df.with_retry(): expected at least 1, the first try included', max_attempts USING ERRCODE = '22023';
    ELSIF max_backoff <= interval '0' THEN
        RAISE EXCEPTION 'invalid max_backoff % for df.with_retry(): expected an interval above zero', max_backoff USING ERRCODE = '22023';
    ELSIF base_delay < interval '0' THEN
        RAISE EXCEPTION 'invalid base_delay % for df.with_retry(): expected an interval of at least zero', base_delay USING ERRCODE = '22023';
    ELSIF given = '{}' THEN
        RAISE EXCEPTION 'df.with_retry() needs max_attempts, max_backoff or base_delay: nothing would change' USING ERRCODE = '22023';
    END IF;
    retry := given || coalesce(graph::jsonb -> 'retry', '{}');
    RETURN df._with_key(graph, 'retry', '{' || (
        SELECT string_agg(to_json(k.key) || ':' || trim_scale((retry ->> k.key)::numeric), ',' ORDER BY k.n)
        FROM unnest('{max_attempts,max_backoff,base_delay}'::text[]) WITH ORDINALITY AS k (key, n) WHERE retry ? k.key) || '}');
END $$;

-- Called in a SQL step: this attempt fails, and the next one starts after exactly this delay. The engine knows it by its SQLSTATE.
CREATE OR REPLACE FUNCTION df.retry_after(delay interval, message text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM df._check_delay(delay);
    RAISE EXCEPTION '%', coalesce(message, 'try again after ' || delay) USING ERRCODE = 'DFRTA', DETAIL = extract(epoch FROM delay);
END $$;

CREATE OR REPLACE FUNCTION df._check_delay(delay interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF delay IS NULL OR delay < interval '0' OR delay > interval '30 days' THEN
        RAISE EXCEPTION 'invalid delay % until the next attempt: expected 0 to 30 days', coalesce(delay::text, 'NULL') USING ERRCODE = '22023';
    END IF;
END $$;

-- Ends the wait for the next attempt of a node, by its name or its number ('#3'), or of all nodes of a run; gives how many.
CREATE OR REPLACE FUNCTION df.retry_now(run_id text, node text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    run record;
    wanted integer[];
    ended integer;
BEGIN
    SELECT i.status, i.submitted_by INTO run FROM df.instances i WHERE i.id = run_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Instance not found or access denied: %', run_id USING ERRCODE = '02000';
    END IF;
    wanted := df._nodes_called(run_id, node);
    UPDATE df.nodes n SET ready_at = df.now(), rev = i.version + 1
    FROM df.instances i
    WHERE i.id = run_id AND n.instance_id = run_id AND n.node_id = ANY (wanted) AND n.status = 'ready' AND n.ready_at > df.now();
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended = 0 THEN
        -- By cases: format() of a NULL is a text with a gap in it.
        RAISE EXCEPTION '% waits for another attempt: nothing was changed', CASE
            WHEN node IS NULL THEN format('run %s is %s; nothing in it', run_id, run.status)
            WHEN cardinality(wanted) > 1 THEN format('none of the nodes %s of run %s', node, run_id)
            ELSE format('node %s of run %s is %s and no longer', node, run_id,
                        (SELECT n.status FROM df.nodes n WHERE n.instance_id = run_id AND n.node_id = wanted[1])) END
            USING ERRCODE = '55000';
    END IF;
    UPDATE df.instances i SET version = i.version + 1, updated_at = df.now() WHERE i.id = run_id;
    PERFORM df._tell(run.submitted_by);
    RETURN ended;
END $$;

-- The numbers of the nodes that a name or '#n' stands for; all nodes for NULL.
CREATE OR REPLACE FUNCTION df._nodes_called(run text, node text) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    found integer[];
BEGIN
    IF node ~ '^#[0-9]{1,9}$' THEN
        found := ARRAY(SELECT n.node_id FROM df.nodes n WHERE n.instance_id = run AND n.node_id = substr(node, 2)::integer);
    ELSE
        found := ARRAY(SELECT w.node_id FROM df._nodes_of(run) w
                       WHERE (node IS NULL OR w.node ->> 'result_name' = node) ORDER BY w.node_id);
    END IF;
    IF found = '{}' THEN
        RAISE EXCEPTION 'run % has no node %; write its name, or its number as ''#3''', run, node USING ERRCODE = '02000';
    END IF;
    RETURN found;
END $$;

-- Every attempt that has ended, in the order of their ends; those of old iterations are not kept.
CREATE OR REPLACE FUNCTION df.instance_attempts(run_id text)
RETURNS TABLE (
    node_id integer, attempt integer, iterations integer[], outcome text, started_at timestamptz, finished_at timestamptz, error jsonb,
    delay interval, delay_source text, executed text, exactly_once boolean, fingerprint text, engine_id text, logs text)
LANGUAGE sql STABLE AS $$
    SELECT a.node_id, a.attempt, a.iterations, a.outcome, a.started_at, a.finished_at, a.error,
           a.delay, a.delay_source, coalesce(a.executed, d.query), a.exactly_once, a.fingerprint, a.engine_id, a.logs
    FROM df.instances i
    JOIN df.attempts a ON a.instance_id = i.id AND a.submitted_by = i.submitted_by
    LEFT JOIN (SELECT w.node_id, w.node ->> 'query' AS query FROM df.definitions d CROSS JOIN LATERAL df._walk(d.graph::jsonb) w
               WHERE d.instance_id = $1) d ON d.node_id = coalesce(a.pattern, a.node_id)
    WHERE i.id = $1 ORDER BY a.rev, a.node_id
$$;
