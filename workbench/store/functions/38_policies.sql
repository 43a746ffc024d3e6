-- Limits on what a part of a graph does at once. The nodes under a policy are noted at the start (30), admission is in 41.

-- Every HTTP step in `fut` shares the limit, also over iterations and engines; limits around it stay. Applied to one node again,
-- the smaller limit stays.
CREATE OR REPLACE FUNCTION df.with_policy(fut text, policy jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
    graph text := df._step(fut);
    fault text := CASE WHEN jsonb_typeof(policy) <> 'object' OR policy = '{}' THEN 'policy must read {"http": {"max_concurrency": N}}'
                       ELSE df._policy_fault(policy) END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'df.with_policy: %', fault USING ERRCODE = '22023';
    END IF;
    RETURN df._with_key(graph, 'policy', format('{"http":{"max_concurrency":%s}}', least(
        (policy #>> '{http,max_concurrency}')::numeric, (graph::jsonb #>> '{policy,http,max_concurrency}')::numeric)));
END $$;

-- The scopes of a run: their limits, how many requests are under way in each, and how many wait.
CREATE OR REPLACE FUNCTION df.policy_scopes(run_id text)
RETURNS TABLE (scope text, node_id integer, max_concurrency integer, in_use bigint, waiting bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.instance_id || '/' || s.node_id, s.node_id, s.max_concurrency, df._scope_in_use(s.instance_id, s.node_id, s.last_node),
           (SELECT count(*) FROM df.nodes n WHERE n.instance_id = s.instance_id AND n.node_id BETWEEN s.node_id AND s.last_node
            AND n.gate IS NOT NULL AND n.status = 'ready' AND n.ready_at <= df.now())
    FROM df.scopes s WHERE s.instance_id = $1 ORDER BY s.node_id
$$;
