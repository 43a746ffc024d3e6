-- df.explain: a graph, an expression or a run as a tree of text. `df._explain_rows` says what stands on which line; the text is printed
-- from it, and Python's views draw from the same rows. The lines are those of workbench/graph/tree.py, byte for byte.

-- The picture of a graph (JSON, SQL, or an expression such as 'a' ~> 'b', which is evaluated with the caller's rights) or of a run
-- with the state of each node. What is no valid graph is answered with a text that says why; an expression that raises, raises.
CREATE OR REPLACE FUNCTION df.explain(input text) RETURNS text
LANGUAGE plpgsql VOLATILE STRICT AS $$
DECLARE
    said text := btrim(input, E' \t\n\r\f\v');
    built text;
BEGIN
    IF said ~ '^[0-9A-Fa-f]{8}$' THEN
        RETURN df._explain_run(said);
    ELSIF df._reads_as_graph(said) THEN
        RETURN df._explain_graph(said);
    ELSIF said ~ '~>|\|=>|\?>|!>|@>|df\.' THEN
        EXECUTE 'SELECT ' || said INTO built;
        RETURN CASE WHEN built IS NULL THEN 'Expression returned NULL'
            WHEN df._reads_as_graph(built) THEN df._explain_graph(built)
            ELSE format(E'Cannot explain input: the expression gives no graph but ''%s''.\n', df._cut(built, 60)) || df._explain_hint() END;
    ELSIF said ~* '^(select|insert|update|delete|with|create|alter|drop|call|do|truncate|grant|revoke|explain)\M' THEN
        RETURN df._explain_graph(df.sql(said));
    END IF;
    RETURN E'Cannot explain input: not a valid Durofut JSON, instance ID, SQL statement, or DSL expression.\n' || df._explain_hint();
END $$;

CREATE OR REPLACE FUNCTION df._explain_hint() RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'Hint: DSL expressions use df.*() functions and operators like ~>, |=>, &, |.'::text $$;

-- Whether a text is meant as a graph, if only a faulty one.
CREATE OR REPLACE FUNCTION df._reads_as_graph(said text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN starts_with(said, '{') THEN (SELECT s.node IS NOT NULL OR s.fault IS NOT NULL FROM df._read_step(said) s) ELSE false END
$$;

CREATE OR REPLACE FUNCTION df._explain_graph(said text) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    step record;
    fault text;
BEGIN
    SELECT * INTO step FROM df._read_step(said);
    fault := CASE WHEN step.fault IS NOT NULL THEN 'root: ' || step.fault ELSE df._graph_fault(step.node) END;
    RETURN coalesce('Invalid durable function graph: ' || fault, df._explain_text(step.node, NULL));
END $$;

-- What df.start would refuse in a graph, with its path, or NULL.
CREATE OR REPLACE FUNCTION df._graph_fault(graph jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
    WITH walk AS MATERIALIZED (SELECT w.node_id, w.path, w.depth, w.node FROM df._walk(graph) w)
    SELECT coalesce(
        (SELECT CASE WHEN w.depth > 256 THEN 'root' ELSE w.path END || ': ' || f.text
         FROM walk w CROSS JOIN LATERAL df._fault(w.node, w.depth) AS f (text)
         WHERE f.text IS NOT NULL ORDER BY w.depth > 256 DESC, w.node_id LIMIT 1),
        (SELECT format('root: Workflow exceeds maximum node count of 10000. It has %s.', count(*)) FROM walk HAVING count(*) > 10000))
$$;

CREATE OR REPLACE FUNCTION df._explain_run(run text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT format('Instance: %s%s', i.id, ' (' || d.label || ')') || E'\n'
            || format('Status:   %s %s', CASE i.status WHEN 'cancelled' THEN '✗' ELSE df._mark(i.status) END, initcap(i.status)) || E'\n'
            || coalesce('Output:   ' || df._cut(regexp_replace(left(o.output, 1000), '\s*[\n\r]\s*', ' ', 'g'), 60) || E'\n', '')
            || E'\n' || df._explain_text(NULL, i.id) || coalesce(E'\n\n' || df._held_text(i.id), '')
        FROM df.instances i JOIN df.definitions d ON d.instance_id = i.id CROSS JOIN LATERAL df._instance(i.id) o
        WHERE i.id = lower(run)), format('Instance ''%s'' not found', run))
$$;

-- The lines, all padded to the longest and 4 more. A statement of several lines stays one of several lines.
CREATE OR REPLACE FUNCTION df._explain_text(graph jsonb, run text) RETURNS text
LANGUAGE sql STABLE AS $$
    WITH lines AS MATERIALIZED (
        SELECT r.line, l.n, l.text
        FROM df._explain_rows(graph, run) r CROSS JOIN LATERAL (SELECT left(r.prefix, -2) AS above) p
        CROSS JOIN LATERAL string_to_table(
            concat(p.above || replace(r.heading, E'\n', E'\n' || p.above) || E'\n', r.prefix, r.connector, r.label, ' ' || r.policy, ' ' || r.mark, ' ' || r.waits_for),
            E'\n') WITH ORDINALITY AS l (text, n)
        WHERE r.line IS NOT NULL
    )
    SELECT string_agg(rpad(l.text, w.width), E'\n' ORDER BY l.line, l.n)
    FROM lines l CROSS JOIN (SELECT max(length(text)) + 4 AS width FROM lines) w
$$;

-- Every node of a graph, or of a run's with its state, and its place in the picture; one of the two is given. `line` counts from 1
-- in the order of drawing; it is NULL for a THEN, whose steps stand one below the other. `heading`, a line or more, stands before
-- the node's line, behind `prefix` less two spaces. `policy` are the limits that begin at this line, the innermost first; that of a
-- THEN stands at its first step. `waits_for` is the place of an HTTP step that has no room. Numbers, parents and depths are those of
-- df._walk.
CREATE OR REPLACE FUNCTION df._explain_rows(graph jsonb, run text)
RETURNS TABLE (
    line integer, node_id integer, parent_id integer, depth integer, node_type text, result_name text,
    prefix text, connector text, heading text, label text, status text, mark text, iteration integer,
    policy text, waits_for text)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE drawn (place, turns, node, prefix, connector, inner_prefix, heading, within) AS (
        SELECT '{}'::integer[], '{}'::integer[], g.node, '', '', '    ', NULL::text, '{}'::text[]
        FROM (SELECT coalesce(graph, (SELECT d.graph::jsonb FROM df.definitions d WHERE d.instance_id = run)) AS node) g
        WHERE g.node IS NOT NULL
        UNION ALL
        SELECT d.place || c.ord, d.turns || c.turn, c.node, n.prefix,
               CASE WHEN d.is_then THEN CASE c.ord WHEN 1 THEN d.connector ELSE '→ ' END WHEN c.is_last THEN '└─' ELSE '├─' END,
               n.prefix || CASE WHEN d.is_then OR c.is_last THEN '    ' ELSE '│   ' END,
               CASE WHEN NOT d.is_then THEN c.heading WHEN c.ord = 1 THEN d.heading END,
               -- The sequences with a limit of their own that this is a step of.
               CASE WHEN NOT d.is_then THEN '{}' WHEN df._http_limit(d.node) IS NULL THEN d.within ELSE d.within || d.place::text END
        FROM (SELECT w.*, w.node ->> 'node_type' = 'THEN' AS is_then FROM drawn w) d
        CROSS JOIN LATERAL df._explain_children(d.node) c
        CROSS JOIN LATERAL (SELECT CASE WHEN d.is_then THEN d.prefix ELSE d.inner_prefix || '  ' END AS prefix) n
        WHERE cardinality(d.place) < 256
    ), numbered AS (
        SELECT row_number() OVER (ORDER BY d.place)::integer - 1 AS node_id,
               CASE WHEN t.kind <> 'THEN' THEN row_number() OVER (PARTITION BY t.kind = 'THEN' ORDER BY d.turns)::integer END AS line,
               t.kind, d.*
        FROM drawn d CROSS JOIN LATERAL (SELECT d.node ->> 'node_type' AS kind) t
    ), limits AS (
        SELECT b.line, string_agg(format('[%s%s]', CASE WHEN b.steps > 0 THEN b.steps || ' steps: ' END,
                                         df._scope_words(df._http_limit(s.node), p.scope, p.in_use, p.waiting)), ' ' ORDER BY s.node_id DESC) AS policy
        FROM (SELECT d.place::text AS place, d.line, 0 AS steps FROM numbered d WHERE d.line IS NOT NULL AND df._http_limit(d.node) IS NOT NULL
              UNION ALL SELECT w.place, min(d.line), count(*) FROM numbered d CROSS JOIN unnest(d.within) AS w (place)
              WHERE d.line IS NOT NULL GROUP BY w.place) b
        JOIN numbered s ON s.place::text = b.place
        LEFT JOIN df._live_scopes(run) p ON p.node_id = s.node_id
        GROUP BY b.line
    )
    SELECT d.line, d.node_id, p.node_id, cardinality(d.place), d.kind, d.node ->> 'result_name',
           d.prefix, d.connector, d.heading, df._label(d.node), nullif(n.status, 'pattern'), df._mark(nullif(n.status, 'pattern')), n.iteration, l.policy,
           CASE WHEN h.node_id IS NOT NULL THEN coalesce(df._ordinal(h.place) || ' in line for ' || h.barrier, 'held back by the ' || df._barrier(h.barrier)) END
    FROM numbered d
    LEFT JOIN numbered p ON p.place = d.place[:cardinality(d.place) - 1] AND d.place <> '{}'
    LEFT JOIN df.nodes n ON n.instance_id = run AND n.node_id = d.node_id
    LEFT JOIN limits l ON l.line = d.line
    LEFT JOIN df._held_back(run) h ON h.node_id = d.node_id
$$;

CREATE OR REPLACE FUNCTION df._http_limit(node jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT node #>> '{policy,http,max_concurrency}' $$;

CREATE OR REPLACE FUNCTION df._scope_words(most text, scope text, in_use bigint, waiting bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT concat(scope || ': ', 'http ≤ ', most, ', ' || in_use || ' in use', ', ' || waiting || ' waiting') $$;

-- The scopes of a run that goes on; of one that has ended nothing is in use.
CREATE OR REPLACE FUNCTION df._live_scopes(run text)
RETURNS TABLE (scope text, node_id integer, max_concurrency integer, in_use bigint, waiting bigint)
LANGUAGE sql STABLE STRICT AS $$
    SELECT p.* FROM df.instances i CROSS JOIN LATERAL df.policy_scopes(i.id) p WHERE i.id = run AND i.status IN ('pending', 'running')
$$;

-- Who is where others of a run wait to be, a line a scope or ceiling; NULL when none waits.
CREATE OR REPLACE FUNCTION df._held_text(run text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT string_agg(format('%s %s of %s, %s waiting: %s', df._barrier(b.barrier), b.in_use, b.max_concurrency, b.waiting,
                             (SELECT string_agg(df._holder(h.holder, run), ', ' ORDER BY h.n)
                              FROM jsonb_array_elements(b.holders) WITH ORDINALITY AS h (holder, n))), E'\n' ORDER BY b.scope NULLS LAST)
    FROM (SELECT h.barrier, h.scope, h.max_concurrency, h.in_use, h.holders, count(*) AS waiting
          FROM df._held_back(run) h GROUP BY 1, 2, 3, 4, 5) b
$$;

CREATE OR REPLACE FUNCTION df._barrier(barrier text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE barrier WHEN 'http ceiling' THEN 'HTTP ceiling' WHEN 'activity ceiling' THEN barrier ELSE 'HTTP scope ' || barrier END
$$;

CREATE OR REPLACE FUNCTION df._holder(holder jsonb, run text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN holder ? 'others' THEN concat('another role''s run', ' × ' || nullif(holder ->> 'others', '1'))
        ELSE concat('#' || (holder ->> 'node'), CASE WHEN holder ->> 'node' IS NULL THEN 'a cancelled one' END,
                    ' of ' || nullif(holder ->> 'run', run),
                    ' since ' || to_char((holder ->> 'since')::timestamptz, 'HH24:MI:SS'), ' on ' || (holder ->> 'engine')) END
$$;

-- A node's children: `ord` as in df._walk, `turn` in the order in which they run, so a condition comes before what it decides.
CREATE OR REPLACE FUNCTION df._explain_children(node jsonb)
RETURNS TABLE (ord integer, turn integer, is_last boolean, heading text, node jsonb)
LANGUAGE sql IMMUTABLE AS $$
    SELECT c.ord, CASE WHEN k.kind = 'IF' AND c.ord = 3 THEN 0 ELSE c.ord END,
           CASE k.kind WHEN 'JOIN' THEN c.ord = CASE k.extras WHEN 0 THEN 2 ELSE 3 + k.extras END
                WHEN 'RACE' THEN c.ord = 2 WHEN 'FLOW' THEN c.ord = 3 + k.extras ELSE true END,
           CASE k.kind
               WHEN 'IF' THEN CASE c.ord WHEN 3 THEN '? condition:' WHEN 1 THEN k.rows_of || '✓ then:' ELSE '✗ else:' END
               WHEN 'LOOP' THEN CASE WHEN c.ord <> 3 THEN '↻ body:' WHEN df._is_until($1) THEN '? until:' ELSE '? while:' END
               WHEN 'FLOW' THEN concat(format('◆ step %s:', c.ord - 3), df._step_words(($1 ->> 'query')::json -> 'steps' -> c.ord - 4))
               WHEN 'MAP' THEN '∀ element:'
               ELSE format('║ branch %s:', CASE WHEN c.ord > 3 THEN c.ord - 1 ELSE c.ord END) END,
           c.node
    FROM (SELECT $1 ->> 'node_type' AS kind, jsonb_array_length(coalesce($1 -> 'extra_nodes', '[]')) AS extras,
                 -- df.if_rows has no condition node; what it asks stands where that would.
                 concat(E'? condition:\n  └─rows of ''' || CASE WHEN $1 ->> 'node_type' = 'IF' AND $1 ->> 'condition_node' IS NULL
                                                             THEN ($1 ->> 'query')::jsonb ->> 'result_name' END || E'''\n') AS rows_of
          OFFSET 0) k  -- once, not once a child
    CROSS JOIN LATERAL (
        SELECT 1, $1 -> 'left_node'
        UNION ALL SELECT 2, $1 -> 'right_node'
        UNION ALL SELECT 3, $1 -> 'condition_node'
        UNION ALL SELECT 3 + e.n::integer, e.node
        FROM jsonb_array_elements(CASE WHEN k.extras > 0 THEN $1 -> 'extra_nodes' END) WITH ORDINALITY AS e (node, n)
    ) AS c (ord, node)
    WHERE jsonb_typeof(c.node) = 'object'
$$;

-- What a step of a FLOW waits for, and under which condition it runs.
CREATE OR REPLACE FUNCTION df._step_words(step json) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT concat(' after ' || (SELECT string_agg(a.slug, ', ' ORDER BY a.n) FROM json_array_elements_text(step -> 'after') WITH ORDINALITY AS a (slug, n)),
                  ' if ' || df._cut((step -> 'if')::text, 50), ' if_not ' || df._cut((step -> 'if_not')::text, 50),
                  ' if_skipped ' || (step ->> 'if_skipped'))
$$;

-- One node in one line, without its children; of a valid graph.
CREATE OR REPLACE FUNCTION df._label(node jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT concat(
        CASE k.kind
            WHEN 'SQL' THEN 'SQL: ' || df._cut(coalesce(nullif(k.query, ''), '?'), 50)
            WHEN 'SLEEP' THEN format('SLEEP %ss', k.query)
            WHEN 'WAIT_SCHEDULE' THEN concat(format('WAIT ''%s''', k.query::jsonb ->> 'cron_expr'), ' ' || (k.query::jsonb ->> 'timezone'))
            WHEN 'SIGNAL' THEN concat(format('SIGNAL ''%s''', k.query::jsonb ->> 'signal_name'),
                                      ' (' || (k.query::jsonb ->> 'timeout_seconds') || 's)')
            WHEN 'BREAK' THEN concat('BREAK', ' ''' || df._cut(k.query::jsonb ->> 'break_value', 20) || '''')
            WHEN 'LOOP' THEN CASE WHEN k.node ->> 'condition_node' IS NULL THEN 'LOOP (infinite)'
                                  WHEN df._is_until(k.node) THEN 'LOOP (until)' ELSE 'LOOP (while)' END
            WHEN 'JOIN' THEN format('JOIN (%s)', 2 + k.extras)
            WHEN 'FLOW' THEN format('FLOW %s (%s)', coalesce(k.query::jsonb ->> 'slug', '?'), k.extras)
            WHEN 'MAP' THEN format('MAP over %s', coalesce(k.query::jsonb ->> 'over', '?'))
            WHEN 'PYTHON' THEN format('PYTHON %s', k.query::jsonb ->> 'handler')
            WHEN 'EXTERNAL' THEN format('EXTERNAL %s', k.query::jsonb ->> 'handler')
            ELSE CASE WHEN k.kind IN ('HTTP', 'HTTP_MULTIPART')
                      THEN format('%s %s %s', k.kind, k.query::jsonb ->> 'method', df._cut(k.query::jsonb ->> 'url', 40)) ELSE k.kind END
        END,
        CASE WHEN k.kind NOT IN ('THEN', 'RACE') THEN ' |=> ''' || (k.node ->> 'result_name') || '''' END)
    FROM (SELECT node, node ->> 'node_type' AS kind, node ->> 'query' AS query,
                 jsonb_array_length(coalesce(node -> 'extra_nodes', '[]')) AS extras) k
$$;

CREATE OR REPLACE FUNCTION df._is_until(node jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT (node -> 'options' -> 'until' = 'true') IS TRUE $$;

-- At most `limit_bytes` of UTF-8, three of them dots if anything is missing, and never a part of a character.
CREATE OR REPLACE FUNCTION df._cut(said text, limit_bytes integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(convert_to(said, 'UTF8')) <= limit_bytes THEN said
        ELSE (SELECT left(said, n) FROM generate_series(limit_bytes - 3, 0, -1) n
              WHERE octet_length(convert_to(left(said, n), 'UTF8')) <= limit_bytes - 3 LIMIT 1) || '...' END
$$;

CREATE OR REPLACE FUNCTION df._mark(status text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE df._four_words(status) WHEN 'completed' THEN '✓' WHEN 'failed' THEN '✗' WHEN 'running' THEN '⏳' WHEN 'pending' THEN '○'
        WHEN 'skipped' THEN '⊘' END
$$;
