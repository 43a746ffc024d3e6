-- Resuming: a new run of the same lineage in which the leaves that had succeeded have their results already. They are walked
-- through like all others (engine/control.py), but not executed.

CREATE OR REPLACE FUNCTION df.resume_run(run_id text) RETURNS SETOF df.instances
LANGUAGE plpgsql VOLATILE ROWS 1 AS $$
DECLARE
    made text := df._resume(run_id, NULL, NULL, NULL, true);
BEGIN
    RETURN QUERY SELECT * FROM df.instances i WHERE i.id = made;
END $$;

-- `graph` is a repaired one, or NULL for the run's own; then `ours` and `theirs` pair its leaves with those of the run whose
-- results they may have (workbench/graph/resume.py).
CREATE OR REPLACE FUNCTION df._resume(run text, graph text, ours integer[], theirs integer[], tell boolean) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    definition df.definitions := df._retried(run);
    made text;
BEGIN
    definition.kind := 'resume';
    IF graph IS NOT NULL THEN
        definition.graph := df._to_graph(graph)::json;
        IF df._graph_fault(definition.graph::jsonb) IS NOT NULL THEN
            RAISE EXCEPTION 'Invalid durable function graph: %', df._graph_fault(definition.graph::jsonb) USING ERRCODE = '22023';
        END IF;
    END IF;
    made := df._new_run(definition, NULL, run, tell);
    UPDATE df.nodes n
    SET result = s.result, columns = s.columns, falsy = s.falsy, size = s.size, facts = s.facts,
        reused_run = coalesce(s.reused_run, s.instance_id), reused_node = coalesce(s.reused_node, s.node_id)
    FROM df._finished_leaves(run) l
    JOIN df.nodes s ON s.instance_id = run AND s.node_id = l
    LEFT JOIN unnest(ours, theirs) AS p (ours, theirs) ON p.theirs = l
    WHERE n.instance_id = made AND n.node_id = CASE WHEN graph IS NULL THEN l ELSE p.ours END;
    PERFORM df._resume_maps(run, made, graph IS NULL, ours, theirs);
    RETURN made;
END $$;

-- Maps begin with the elements that they had: those that had completed have their results already. Not those with maps inside.
CREATE OR REPLACE FUNCTION df._resume_maps(run text, made text, same boolean, ours integer[], theirs integer[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    map record;
    first integer := (SELECT max(n.node_id) + 1 FROM df.nodes n WHERE n.instance_id = made);
    stride integer;
BEGIN
    FOR map IN
        SELECT s.node_id, s.base, s.size, t.node_id AS target
        FROM df.nodes s LEFT JOIN unnest(ours, theirs) AS p (ours, theirs) ON p.theirs = s.node_id
        JOIN df.nodes t ON t.instance_id = made AND t.node_id = CASE WHEN same THEN s.node_id ELSE p.ours END
        WHERE s.instance_id = run AND s.node_type = 'MAP' AND s.base IS NOT NULL AND s.pattern IS NULL ORDER BY s.node_id
    LOOP
        stride := (SELECT max(e.node_id) - map.base + 1 FROM df.nodes e WHERE e.instance_id = run AND e.pattern IS NOT NULL
                   AND e.node_id >= map.base AND e.element = '{0}');
        CONTINUE WHEN EXISTS (SELECT FROM df.nodes e WHERE e.instance_id = run AND e.node_type = 'MAP'
                              AND e.node_id BETWEEN map.base AND map.base + stride - 1);
        INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type, handler, gate, max_attempts, pattern, element,
                              result, columns, falsy, size, facts, reused_run, reused_node)
        SELECT made, first + e.node_id - map.base, t.submitted_by, t.node_type, t.handler, t.gate, t.max_attempts, t.node_id, e.element,
               (r).result, (r).columns, coalesce((r).falsy, false), (r).size, (r).facts,
               coalesce((r).reused_run, (r).instance_id), coalesce((r).reused_node, (r).node_id)
        FROM df.nodes e
        JOIN df.nodes t ON t.instance_id = made AND t.node_id = map.target + 1 + (e.node_id - map.base) % stride
        LEFT JOIN df.nodes root ON root.instance_id = run AND root.node_id = e.node_id - (e.node_id - map.base) % stride AND root.status = 'completed'
        LEFT JOIN df.nodes r ON root.node_id IS NOT NULL AND r.instance_id = run AND r.node_id = e.node_id AND r.status = 'completed'
             AND r.node_id IN (SELECT df._finished_leaves(run))
        WHERE e.instance_id = run AND e.node_id BETWEEN map.base AND map.base + map.size * stride - 1;
        UPDATE df.nodes n SET base = first, size = map.size WHERE n.instance_id = made AND n.node_id = map.target;
        first := first + map.size * stride;
    END LOOP;
END $$;

-- Leaves that have succeeded, in loops in the iteration that was under way.
CREATE OR REPLACE FUNCTION df._finished_leaves(run text) RETURNS SETOF integer
LANGUAGE sql STABLE AS $$
    SELECT n.node_id FROM df.nodes n
    WHERE n.instance_id = run AND n.status = 'completed'
      AND n.node_type IN ('SQL', 'PYTHON', 'EXTERNAL', 'HTTP', 'HTTP_MULTIPART', 'SLEEP', 'WAIT_SCHEDULE', 'SIGNAL', 'BREAK')
    ORDER BY n.node_id
$$;
