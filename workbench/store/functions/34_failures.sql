-- Failed attempts by what went wrong: messages that differ only in their literals are one failure.

-- The newest first, at most `limit_count`. One failure is one node (its name, else '#' and its number) of the runs with one label,
-- one SQLSTATE (else the exception's type), and one message without its literals; `fingerprint` stands for all four. `attempts` and `runs`
-- count since then; the example is the last such attempt. Failures without an attempt (a wait that timed out) are not among them.
CREATE OR REPLACE FUNCTION df.failures(since timestamptz DEFAULT NULL, limit_count integer DEFAULT 100)
RETURNS TABLE (
    fingerprint text, label text, node text, code text, message text, attempts bigint, runs bigint,
    first_seen timestamptz, last_seen timestamptz,
    example_run_id text, example_node_id integer, example_rev bigint, example_error jsonb)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    PERFORM df._check_limit(limit_count);
    RETURN QUERY
    WITH seen AS MATERIALIZED (
        SELECT a.instance_id, a.node_id, coalesce(a.pattern, a.node_id) AS origin, a.rev, a.finished_at, a.submitted_by,
               coalesce(a.error ->> 'sqlstate', a.error ->> 'type', a.outcome) AS code, coalesce(a.error ->> 'message', '') AS message
        FROM df.attempts a WHERE a.outcome IN ('failed', 'worker_lost') AND a.finished_at >= coalesce(since, '-infinity')
    ), texts AS MATERIALIZED (
        SELECT m.message, df._without_literals(m.message) AS plain FROM (SELECT DISTINCT s.message FROM seen s) m
    ), places AS MATERIALIZED (
        SELECT d.instance_id, d.label, md5(d.graph::text) AS shape
        FROM (SELECT DISTINCT s.instance_id FROM seen s) s JOIN df.definitions d ON d.instance_id = s.instance_id
    ), names AS MATERIALIZED (
        -- Many runs have one graph, which is read once.
        SELECT p.shape, w.node_id, w.name
        FROM (SELECT p.shape, min(p.instance_id) AS instance_id FROM places p GROUP BY p.shape) p
        JOIN df.definitions d ON d.instance_id = p.instance_id CROSS JOIN LATERAL df._names(d.graph::jsonb) w
    ), placed AS (
        SELECT s.*, p.label, coalesce(n.name, '#' || s.origin) AS node, t.plain
        FROM seen s JOIN places p ON p.instance_id = s.instance_id JOIN texts t ON t.message = s.message
        LEFT JOIN names n ON n.shape = p.shape AND n.node_id = s.origin
    ), grouped AS (
        SELECT label, node, code, plain, count(*) AS attempts, count(DISTINCT instance_id) AS runs, min(finished_at) AS first_seen,
               max(finished_at) AS last_seen, min(instance_id) FILTER (WHERE nth = 1) AS run, min(node_id) FILTER (WHERE nth = 1) AS number,
               min(rev) FILTER (WHERE nth = 1) AS rev, min(owner) FILTER (WHERE nth = 1) AS owner
        FROM (SELECT p.*, p.submitted_by::oid AS owner,
                     row_number() OVER (PARTITION BY label, node, code, plain ORDER BY finished_at DESC, instance_id, rev DESC) AS nth
              FROM placed p) p
        GROUP BY label, node, code, plain
    )
    SELECT left(md5(concat_ws(E'\x01', coalesce(g.label, E'\x02'), g.node, g.code, g.plain)), 12), g.label, g.node, g.code, g.plain,
           g.attempts, g.runs, g.first_seen, g.last_seen, g.run, g.number, g.rev, a.error
    FROM (SELECT * FROM grouped ORDER BY last_seen DESC, attempts DESC, node, plain LIMIT limit_count) g
    LEFT JOIN df.attempts a ON a.instance_id = g.run AND a.node_id = g.number AND a.rev = g.rev AND a.submitted_by = g.owner
    ORDER BY g.last_seen DESC, g.attempts DESC, g.node, g.plain;
END $$;

-- A message with `?` for what varies from one occurrence to the next: quoted text, UUIDs, times, hexadecimal digits (eight or more, or
-- after 0x), numbers, and lists of these; in one line of at most 300 characters. Digits inside a name stay.
CREATE OR REPLACE FUNCTION df._without_literals(message text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    text text := btrim(regexp_replace(left(message, 2000), '\s+', ' ', 'g'));
BEGIN
    text := regexp_replace(text, '(?<!\w)(''(?:[^'']|'''')*''|"(?:[^"]|"")*"|`[^`]*`)(?!\w)', '?', 'g');
    text := regexp_replace(text, '\m[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\M', '?', 'gi');
    text := regexp_replace(text, '(?<!\w)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?(?!\w)', '?', 'g');
    text := regexp_replace(text, '\m(?:0x[0-9a-f]+|(?=[a-f]*\d)[0-9a-f]{8,})\M', '?', 'gi');
    text := regexp_replace(text, '(?<!\w)[-+]?\d+(?:[.,:]\d+)*(?:e[-+]?\d+\M)?', '?', 'gi');
    text := regexp_replace(text, '\?(?:, ?\?)+', '?', 'g');
    RETURN left(text, 300);
END $$;
