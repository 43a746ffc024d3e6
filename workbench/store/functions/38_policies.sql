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

-- The HTTP steps of a run that are due and have no room, and what holds each back: the innermost full scope around it, else a
-- ceiling. `place` is the node's in the scope's line, NULL at a ceiling, where runs take turns. `holders` are those who are in, the
-- first first, at most ten: {"run", "node", "engine", "since"}; `node` is null of a cancelled one whose engine has not confirmed its
-- end, {"others": n} stands for runs that this role may not see. Nothing is read beyond the waiting nodes when there are none.
CREATE OR REPLACE FUNCTION df._held_back(run text)
RETURNS TABLE (node_id integer, barrier text, scope integer, max_concurrency integer, in_use integer, place integer, holders jsonb)
LANGUAGE sql STABLE STRICT AS $$
    WITH waiting AS MATERIALIZED (
        SELECT n.node_id, n.gate, n.ready_at FROM df.nodes n
        WHERE n.instance_id = run AND n.gate IS NOT NULL AND n.status = 'ready' AND n.ready_at <= df.now()
    ), inside AS MATERIALIZED (
        SELECT s.node_id, s.last_node, s.max_concurrency, count(*)::integer AS in_use, df._first_holders(array_agg(p.holder ORDER BY p.since)) AS holders
        FROM df._permits(run) p JOIN df.scopes s ON s.instance_id = run AND p.gate BETWEEN s.node_id AND s.last_node
        WHERE EXISTS (SELECT FROM waiting)
        GROUP BY s.node_id, s.last_node, s.max_concurrency HAVING count(*) >= s.max_concurrency
    ), lines AS MATERIALIZED (
        SELECT DISTINCT ON (l.node_id) l.* FROM (
            SELECT w.node_id, run || '/' || i.node_id AS barrier, i.node_id AS scope, i.max_concurrency, i.in_use,
                   (row_number() OVER (PARTITION BY i.node_id ORDER BY w.ready_at, w.node_id))::integer AS place, i.holders
            FROM waiting w JOIN inside i ON w.gate BETWEEN i.node_id AND i.last_node) l
        ORDER BY l.node_id, l.scope DESC
    ), free AS MATERIALIZED (
        SELECT w.node_id FROM waiting w WHERE NOT EXISTS (SELECT FROM lines l WHERE l.node_id = w.node_id)
    ), ceiling AS MATERIALIZED (
        SELECT c.*, (SELECT df._first_holders(array_remove(array_agg(p.holder ORDER BY p.since)
                            || CASE WHEN count(*) < c.in_use THEN jsonb_build_object('others', c.in_use - count(*)) END, NULL))
                     FROM df._permits(NULL) p WHERE c.barrier = 'activity ceiling' OR p.gate IS NOT NULL) AS holders
        FROM df._in_use() u CROSS JOIN LATERAL (
            SELECT 'http ceiling' AS barrier, u.most_http AS most, u.http AS in_use WHERE u.http >= u.most_http
            UNION ALL SELECT 'activity ceiling', u.most_activity, u.activity WHERE u.activity >= u.most_activity
            LIMIT 1) c
        WHERE EXISTS (SELECT FROM free)
    )
    SELECT l.node_id, l.barrier, l.scope, l.max_concurrency, l.in_use, l.place, l.holders FROM lines l
    UNION ALL SELECT f.node_id, c.barrier, NULL, c.most, c.in_use, NULL, c.holders FROM free f CROSS JOIN ceiling c
$$;

-- Permits of a run, or of all that the caller may see, as holders are told.
CREATE OR REPLACE FUNCTION df._permits(run text) RETURNS TABLE (gate integer, since timestamptz, holder jsonb)
LANGUAGE sql STABLE AS $$
    SELECT p.gate, p.since, jsonb_build_object('run', p.instance_id, 'node', p.node_id, 'engine', concat(e.host, ':', e.pid), 'since', p.since)
    FROM df.engines e JOIN (
        SELECT n.instance_id, n.node_id, n.gate, n.engine_id, n.started_at AS since FROM df.nodes n WHERE n.status = 'running' AND n.token IS NOT NULL
        UNION ALL SELECT r.instance_id, NULL, r.gate, r.engine_id, NULL FROM df.releasing r
    ) p ON p.engine_id = e.id
    WHERE e.stopped_at IS NULL AND e.died_at IS NULL AND (run IS NULL OR p.instance_id = run)
$$;

-- At most ten of them, those of other roles always among them.
CREATE OR REPLACE FUNCTION df._first_holders(holders jsonb[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT to_jsonb(holders[:10] || CASE WHEN cardinality(holders) > 10 AND holders[cardinality(holders)] ? 'others' THEN holders[cardinality(holders):] END)
$$;
