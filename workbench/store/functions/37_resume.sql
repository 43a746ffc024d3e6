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
    SET result = s.result, columns = s.columns, falsy = s.falsy,
        reused_run = coalesce(s.reused_run, s.instance_id), reused_node = coalesce(s.reused_node, s.node_id)
    FROM df._finished_leaves(run) l
    JOIN df.nodes s ON s.instance_id = run AND s.node_id = l
    LEFT JOIN unnest(ours, theirs) AS p (ours, theirs) ON p.theirs = l
    WHERE n.instance_id = made AND n.node_id = CASE WHEN graph IS NULL THEN l ELSE p.ours END;
    RETURN made;
END $$;

-- Leaves that have succeeded, in loops in the iteration that was under way.
CREATE OR REPLACE FUNCTION df._finished_leaves(run text) RETURNS SETOF integer
LANGUAGE sql STABLE AS $$
    SELECT n.node_id FROM df.nodes n
    WHERE n.instance_id = run AND n.status = 'completed'
      AND n.node_type IN ('SQL', 'PYTHON', 'HTTP', 'HTTP_MULTIPART', 'SLEEP', 'WAIT_SCHEDULE', 'SIGNAL', 'BREAK')
    ORDER BY n.node_id
$$;
