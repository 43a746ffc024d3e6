-- Reading one attempt for people: what it executed and printed, which the lists of attempts leave out because it may be long.

CREATE OR REPLACE FUNCTION df._attempt(run text, node integer, rev bigint)
RETURNS TABLE (executed text, iterations integer[], max_attempts integer, logs text)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT a.executed, a.iterations, coalesce(n.max_attempts, d.max_attempts), a.logs
    FROM df.attempts a JOIN df.definitions d ON d.instance_id = a.instance_id
    JOIN df.nodes n ON n.instance_id = a.instance_id AND n.node_id = a.node_id
    WHERE a.instance_id = $1 AND a.node_id = $2 AND a.rev = $3
$$;

-- What these names mean in a run now, by the innermost of `scopes` that knows each; also for who may only look.
CREATE OR REPLACE FUNCTION df._values_seen(run text, scopes integer[], names text[])
RETURNS TABLE (name text, value text, columns jsonb)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT ON (v.name) v.name, v.value::text, v.columns
    FROM unnest(scopes) WITH ORDINALITY AS s (scope, distance) JOIN df.values v ON v.scope = s.scope
    WHERE v.instance_id = run AND v.name = ANY (names) ORDER BY v.name, s.distance
$$;
