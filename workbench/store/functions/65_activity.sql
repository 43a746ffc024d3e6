-- Which runs work, which wait and for what, which are wedged. Nothing here decides anything: it reads what engines go by.
-- Row security decides what is seen; only the statements of one's own role show who blocks them.

-- Every run that has not ended and in which nothing has moved for `idle_for`. `state` is working, waiting, retrying or wedged, and
-- `reason` says why in words; `reason_parts` are the same words with their moments apart ({"at": …} a time of day, {"left": …} how
-- long it is until then, {"for": …} how long it has been), so that a reader may say those in its own zone. The counts are of steps:
-- those that are being executed, and those that failed, also when they are about to be tried again. `waiting_node_id` is the node
-- that the reason is about, `attempt` its attempt under way or next. A LIMIT without an ORDER BY costs only what it shows.
CREATE OR REPLACE FUNCTION df.instance_activity(idle_for interval DEFAULT '0')
RETURNS TABLE (
    instance_id text, label text, status text, last_activity_at timestamptz, idle_for_seconds double precision,
    running_node_count integer, failed_node_count integer, last_error text, last_error_at timestamptz,
    state text, reason text, reason_parts jsonb, waiting_node_id integer, next_wake_at timestamptz,
    attempt integer, max_attempts integer, abandoned_iterations integer, engine_alive boolean)
LANGUAGE sql STABLE AS $$
    SELECT f.instance_id, f.label, f.status, f.last_at, f.idle, f.running, f.failed, w.last_error, w.last_error_at,
           f.state, df._said(w.parts, f.now), w.parts, f.node_id, f.next_at, f.attempt, f.max_attempts, f.abandoned, f.has_engine
    FROM df._activity_facts(idle_for) f CROSS JOIN LATERAL df._activity_words(
        f.instance_id, f.kind, f.node_id, f.subject, f.number, f.max_attempts, f.since, f.due, f.failed, f.has_engine, f.now) w
$$;

-- The same for the activity view: the worst first, and only those at most so many are put into words.
CREATE OR REPLACE FUNCTION df._activity(idle_for interval, most integer)
RETURNS TABLE (
    run_id text, label text, status text, submitted_by text, last_activity_at timestamptz, idle_seconds double precision,
    running integer, failed integer, last_error text, last_error_at timestamptz,
    state text, reason text, reason_parts jsonb, node_id integer, next_wake_at timestamptz,
    attempt integer, max_attempts integer, abandoned integer, engine_alive boolean, signal text, as_of timestamptz)
LANGUAGE sql STABLE SET jit = off AS $$
    SELECT f.instance_id, f.label, f.status, f.role::text, f.last_at, f.idle, f.running, f.failed, w.last_error, w.last_error_at,
           f.state, df._said(w.parts, f.now), w.parts, f.node_id, f.next_at, f.attempt, f.max_attempts, f.abandoned, f.has_engine,
           CASE WHEN f.signals THEN df._awaited_signal(f.instance_id) END, f.now
    FROM (SELECT * FROM df._activity_facts(idle_for) f ORDER BY df._state_rank(f.state), f.idle DESC, f.instance_id LIMIT most) f
    CROSS JOIN LATERAL df._activity_words(
        f.instance_id, f.kind, f.node_id, f.subject, f.number, f.max_attempts, f.since, f.due, f.failed, f.has_engine, f.now) w
    ORDER BY df._state_rank(f.state), f.idle DESC, f.instance_id
$$;

-- How many runs have not ended.
CREATE OR REPLACE FUNCTION df._live_runs() RETURNS bigint
LANGUAGE sql STABLE AS $$ SELECT count(*) FROM df.instances i WHERE i.status IN ('pending', 'running') $$;

-- What is known of each run before it is put into words. `kind` is why the node that says most about it does not end: what is
-- wedged comes first, then what works, what is tried again, what waits. `subject`, `number`, `since` and `due` are of that.
CREATE OR REPLACE FUNCTION df._activity_facts(idle_for interval)
RETURNS TABLE (
    instance_id text, label text, status text, role regrole, last_at timestamptz, idle double precision, running integer, failed integer,
    signals boolean, abandoned integer, next_at timestamptz, has_engine boolean, now timestamptz,
    state text, kind text, node_id integer, subject text, number integer, attempt integer, max_attempts integer,
    since timestamptz, due timestamptz)
LANGUAGE sql STABLE AS $$
    WITH world AS MATERIALIZED (SELECT * FROM df._activity_world()),
    locks AS MATERIALIZED (SELECT * FROM df._lock_waits())
    SELECT i.id, d.label, i.status, i.submitted_by, s.last_at, greatest(extract(epoch FROM world.now - s.last_at), 0)::float8, s.running, s.failed,
           s.signals, s.abandoned, least(i.wake_at, s.next_at), i.submitted_by = ANY (world.roles), world.now,
           df._kind_state(c.kind), c.kind, c.node_id, c.subject,
           CASE c.kind WHEN 'abandoned' THEN c.abandoned WHEN 'loop again' THEN c.abandoned WHEN 'loop' THEN c.iteration + 1
                WHEN 'ceiling' THEN world.most_activity WHEN 'http ceiling' THEN world.most_http
                WHEN 'scope' THEN c.place ELSE c.attempt + 1 END,
           CASE WHEN c.executed THEN c.attempt + 1 END, CASE WHEN c.executed THEN coalesce(c.max_attempts, d.max_attempts) END,
           c.since, c.ready_at
    FROM world
    JOIN df.instances i ON i.status IN ('pending', 'running') AND i.updated_at <= world.now - idle_for
    JOIN df.definitions d ON d.instance_id = i.id
    CROSS JOIN LATERAL (
        SELECT greatest(i.updated_at, max(n.started_at) FILTER (WHERE n.token IS NOT NULL)) AS last_at,
               (count(*) FILTER (WHERE n.token IS NOT NULL))::integer AS running,
               (count(*) FILTER (WHERE n.node_type NOT IN ('THEN', 'JOIN', 'RACE', 'IF', 'LOOP', 'FLOW', 'MAP')
                                   AND (n.status = 'failed' OR (n.attempt > 0 AND n.status IN ('ready', 'running')))))::integer AS failed,
               coalesce(bool_or(n.node_type = 'SIGNAL' AND n.status = 'waiting'), false) AS signals,
               coalesce(bool_or(n.gate >= 0 AND n.status = 'ready'), false) AS scoped,
               coalesce(max(n.abandoned), 0) AS abandoned,
               min(n.ready_at) FILTER (WHERE n.status IN ('ready', 'waiting') AND n.ready_at > world.now) AS next_at
        FROM df.nodes n WHERE n.instance_id = i.id
    ) s
    CROSS JOIN LATERAL (
        SELECT k.* FROM (
            SELECT n.node_id, n.attempt, n.max_attempts, n.ready_at, n.iteration, n.abandoned, h.place,
                   n.status IN ('ready', 'running') AND n.node_type <> 'LOOP' AS executed,
                   coalesce(b.since, n.started_at) AS since, coalesce(b.blocker, CASE WHEN h.scope IS NOT NULL THEN format('%s full (%s of %s)', h.barrier, h.in_use, h.max_concurrency) END, n.handler, n.error ->> 'message') AS subject,
                   CASE WHEN n.node_type = 'LOOP' AND n.abandoned >= 5 THEN 'abandoned'
                        WHEN n.status = 'running' THEN CASE
                            WHEN b.blocker IS NOT NULL THEN 'lock'
                            WHEN n.engine_id = ANY (world.engines) OR (n.engine_id IS NULL AND n.node_type = 'EXTERNAL') THEN 'running'
                            WHEN i.submitted_by = ANY (world.roles) THEN 'lost'
                            ELSE 'no engine' END
                        WHEN n.status = 'waiting' THEN CASE
                            WHEN n.ready_at < world.now - interval '1 second' AND i.submitted_by <> ALL (world.roles) THEN 'overdue'
                            WHEN n.node_type <> 'LOOP' THEN lower(n.node_type)
                            WHEN n.abandoned > 0 THEN 'loop again' ELSE 'loop' END
                        WHEN i.submitted_by <> ALL (world.roles) THEN 'no engine'
                        WHEN n.ready_at > world.now THEN CASE
                            WHEN n.error ->> 'type' = 'MissingSecret' THEN 'secret'
                            WHEN n.attempt + n.losses > 0 THEN 'retry' ELSE 'later' END
                        WHEN n.ready_at < world.now - interval '3 seconds' AND df._handler_is_missing(i.submitted_by, n.handler) THEN 'no handler'
                        WHEN n.ready_at > world.now - interval '1 second' THEN 'ready'
                        WHEN h.scope IS NOT NULL THEN 'scope'
                        WHEN n.gate IS NOT NULL AND world.http >= world.most_http THEN 'http ceiling'
                        WHEN world.activity >= world.most_activity THEN 'ceiling'
                        ELSE 'ready' END AS kind
            FROM df.nodes n
            LEFT JOIN locks b ON n.status = 'running' AND b.application = 'workbench ' || i.id || ' #' || n.node_id AND b.role = i.submitted_by
            LEFT JOIN df._held_back(CASE WHEN s.scoped THEN i.id END) h ON h.node_id = n.node_id  -- strict: not called of other runs
            WHERE n.instance_id = i.id AND i.parked IS NULL
              AND (n.status IN ('ready', 'waiting') OR n.token IS NOT NULL OR (n.node_type = 'LOOP' AND n.abandoned >= 5 AND n.status = 'running'))
            UNION ALL
            -- The run as a whole says least, unless it is parked.
            SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, i.parked ->> 'message',
                   CASE WHEN i.parked IS NOT NULL THEN 'parked' WHEN i.submitted_by <> ALL (world.roles) THEN 'not begun'
                        WHEN i.status = 'pending' THEN 'new' ELSE 'between' END
        ) k ORDER BY df._kind_rank(k.kind), k.ready_at, k.node_id LIMIT 1
    ) c
    WHERE s.last_at <= world.now - idle_for
$$;

-- What is said of one of them: why, with the failed branches that a JOIN holds back, and the last error.
CREATE OR REPLACE FUNCTION df._activity_words(
    run text, kind text, node integer, subject text, number integer, most integer, since timestamptz, due timestamptz,
    failed integer, has_engine boolean, now timestamptz)
RETURNS TABLE (parts jsonb, last_error text, last_error_at timestamptz)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT CASE WHEN b.said IS NULL THEN '[]' ELSE jsonb_build_array(b.said || '; ') END || df._reason(kind, s.subject, number, most, since, due, now)
               || CASE WHEN has_engine OR df._kind_state(kind) <> 'waiting' THEN '[]'::jsonb
                       WHEN due IS NULL THEN '["; needs an engine"]' ELSE '["; needs an engine then"]' END
               || CASE WHEN kind = 'running' THEN df._progress_line(run, node) || df._scope_line(run) ELSE '[]' END,
           e.message, e.at
    FROM (SELECT CASE kind WHEN 'signal' THEN df._signal_of(run, node) WHEN 'external' THEN df._task_of(run, node) ELSE subject END AS subject OFFSET 0) s  -- once
    LEFT JOIN LATERAL (SELECT f.said FROM df._failed_branches(run) f WHERE failed > 0) b ON true
    LEFT JOIN LATERAL df._last_error(run) e ON true
$$;

-- What an outside worker is to do.
CREATE OR REPLACE FUNCTION df._task_of(run text, node integer) RETURNS text
LANGUAGE sql STABLE AS $$ SELECT t.handler FROM df.tasks t WHERE t.instance_id = run AND t.node_id = node $$;

-- What a running handler says of itself.
CREATE OR REPLACE FUNCTION df._progress_line(run text, node integer) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT jsonb_build_array(concat(format(': %s %%', floor((n.progress ->> 'fraction')::numeric * 100)), ', ' || (n.progress ->> 'note')))
        FROM df.nodes n WHERE n.instance_id = run AND n.node_id = node AND n.progress IS NOT NULL), '[]')
$$;

-- What waits for a run's fullest scope while others of it are under way; nothing when none does.
CREATE OR REPLACE FUNCTION df._scope_line(run text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce((
        SELECT jsonb_build_array(format('; HTTP scope %s full (%s of %s), %s in line', h.barrier, h.in_use, h.max_concurrency, count(*)))
        FROM df._held_back(run) h WHERE h.scope IS NOT NULL
        GROUP BY h.barrier, h.in_use, h.max_concurrency ORDER BY count(*) DESC, h.barrier LIMIT 1), '[]')
$$;

-- Why, in words and moments. `number` and `most` count attempts, iterations or steps, as the kind has it.
CREATE OR REPLACE FUNCTION df._reason(
    kind text, subject text, number integer, most integer, since timestamptz, due timestamptz, now timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE kind
        WHEN 'parked' THEN jsonb_build_array('parked: ' || coalesce(left(subject, 200), 'engines leave it alone'))
        WHEN 'lock' THEN jsonb_build_array(format('lock wait: blocked by pid %s for ', subject), jsonb_build_object('for', since))
        WHEN 'no handler' THEN jsonb_build_array('no live engine has handler ' || substring(subject FROM '[^:]*$'))
        WHEN 'abandoned' THEN jsonb_build_array(format('loop abandoned %s iterations in a row', number))
        WHEN 'running' THEN jsonb_build_array(CASE WHEN number = 1 THEN 'runs for ' ELSE format('attempt %s of %s runs for ', number, most) END,
                                              jsonb_build_object('for', since))
        WHEN 'lost' THEN '["its engine was lost: another one takes over"]'
        WHEN 'ready' THEN '["about to be executed"]'
        WHEN 'new' THEN '["about to begin"]'
        WHEN 'between' THEN '["between two steps"]'
        WHEN 'retry' THEN jsonb_build_array(format('%s of %s attempts in ', df._ordinal(number), most), jsonb_build_object('left', due))
        WHEN 'secret' THEN jsonb_build_array(concat(subject, '; looks again in '), jsonb_build_object('left', due))
        WHEN 'ceiling' THEN jsonb_build_array(format('activity ceiling %1$s of %1$s (setting max_activity_concurrency)', number))
        WHEN 'http ceiling' THEN jsonb_build_array(format('HTTP ceiling %1$s of %1$s (setting max_http_concurrency)', number))
        WHEN 'scope' THEN jsonb_build_array(format('HTTP scope %s, %s in line', subject, df._ordinal(number)))
        WHEN 'signal' THEN jsonb_build_array(format('waits for signal %s since ', subject), jsonb_build_object('at', since))
                           || CASE WHEN due IS NULL THEN '[]' ELSE '[", "]'::jsonb || df._due_parts('times out', due, now) END
        WHEN 'external' THEN jsonb_build_array(format('waits for a worker to claim %s since ', subject), jsonb_build_object('at', since))
        WHEN 'sleep' THEN df._due_parts('wakes', due, now)
        WHEN 'wait_schedule' THEN df._due_parts('fires', due, now)
        WHEN 'later' THEN df._due_parts('begins', due, now)
        WHEN 'loop' THEN df._due_parts(format('iteration %s begins', number), due, now)
        WHEN 'loop again' THEN jsonb_build_array(CASE number WHEN 1 THEN 'the last iteration was abandoned; '
                                                 ELSE format('the last %s iterations were abandoned; ', number) END)
                               || df._due_parts('the next begins', due, now)
        WHEN 'overdue' THEN jsonb_build_array('no engine alive: it was due at ', jsonb_build_object('at', due))
        ELSE '["no engine alive"]' END
$$;

-- The last error of a run, also one that an attempt or an iteration after it has made good.
CREATE OR REPLACE FUNCTION df._last_error(run text) RETURNS TABLE (message text, at timestamptz)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT o.error ->> 'message', o.at FROM (
        (SELECT a.error, a.finished_at AS at FROM df.attempts a
         WHERE a.instance_id = run AND a.error IS NOT NULL ORDER BY a.finished_at DESC LIMIT 1)
        UNION ALL
        (SELECT p.error, p.finished_at FROM df.iterations p
         WHERE p.instance_id = run AND p.error IS NOT NULL ORDER BY p.finished_at DESC LIMIT 1)
        UNION ALL SELECT i.parked, i.updated_at FROM df.instances i WHERE i.id = run AND i.parked IS NOT NULL
    ) o ORDER BY o.at DESC LIMIT 1
$$;

-- The name of the signal that a node waits for.
CREATE OR REPLACE FUNCTION df._signal_of(run text, number integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT (w.node ->> 'query')::jsonb ->> 'signal_name'
    FROM df.nodes n JOIN df.definitions d ON d.instance_id = run CROSS JOIN LATERAL df._walk(d.graph::jsonb) w
    WHERE n.instance_id = run AND n.node_id = number AND w.node_id = coalesce(n.pattern, number)
$$;

-- The name of the first signal that a run waits for.
CREATE OR REPLACE FUNCTION df._awaited_signal(run text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT df._signal_of(run, min(n.node_id)) FROM df.nodes n WHERE n.instance_id = run AND n.node_type = 'SIGNAL' AND n.status = 'waiting'
$$;

-- What is the same for all runs: the clock, the roles that have a living engine, those engines, permits and ceilings.
CREATE OR REPLACE FUNCTION df._activity_world()
RETURNS TABLE (
    now timestamptz, roles regrole[], engines text[], activity integer, http integer, most_activity integer, most_http integer)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT df.now(), coalesce(array_agg(DISTINCT e.role), '{}'), coalesce(array_agg(e.id), '{}'),
           max(u.activity), max(u.http), max(u.most_activity), max(u.most_http)
    FROM df.engines e CROSS JOIN df._in_use() u
    WHERE e.stopped_at IS NULL AND e.died_at IS NULL
      AND e.last_seen_at > clock_timestamp() - make_interval(secs => (df._setting('heartbeat_limit') #>> '{}')::float8)
      AND df._lock_held(e.lock_key, e.backend_pid)
$$;

-- Steps whose statement waits for a lock, by the name that their session bears, and who holds it up. Other roles' sessions show
-- neither that they wait nor what they do.
CREATE OR REPLACE FUNCTION df._lock_waits()
RETURNS TABLE (application text, role regrole, blocker text, since timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT DISTINCT ON (a.application_name) a.application_name, a.usesysid::regrole,
           concat(p.pid, CASE WHEN h.query <> '<insufficient privilege>' THEN ' (' || df._glimpse(h.query) || ')' END),
           coalesce((SELECT min(l.waitstart) FROM pg_locks l WHERE l.pid = a.pid AND NOT l.granted), a.query_start)
    FROM pg_stat_activity a
    CROSS JOIN LATERAL unnest(pg_blocking_pids(a.pid)) AS p (pid)
    LEFT JOIN pg_stat_activity h ON h.pid = p.pid
    WHERE a.wait_event_type = 'Lock' AND a.application_name ~ '^workbench [0-9a-f]{8} #[0-9]+$'
    ORDER BY a.application_name, p.pid
$$;

-- The beginning of a statement, in one line.
CREATE OR REPLACE FUNCTION df._glimpse(statement text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(t.line) > 40 THEN rtrim(left(t.line, 39)) || '…' ELSE nullif(t.line, '') END
    FROM (SELECT btrim(regexp_replace(left(statement, 400), '\s+', ' ', 'g')) AS line) t
$$;

CREATE OR REPLACE FUNCTION df._handler_is_missing(role regrole, handler text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT handler IS NOT NULL AND NOT EXISTS (
        SELECT FROM df.engines e WHERE e.role = $1 AND e.stopped_at IS NULL AND e.died_at IS NULL AND handler = ANY (e.handlers))
$$;

-- The worst first.
CREATE OR REPLACE FUNCTION df._state_rank(state text) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$ SELECT array_position('{wedged,retrying,waiting,working}', state) $$;

CREATE OR REPLACE FUNCTION df._kind_state(kind text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN kind IN ('parked', 'lock', 'no handler', 'no engine', 'not begun', 'overdue', 'abandoned') THEN 'wedged'
                WHEN kind IN ('running', 'ready', 'new', 'between') THEN 'working'
                WHEN kind IN ('retry', 'lost', 'loop again') THEN 'retrying' ELSE 'waiting' END
$$;

-- The run as a whole, `between`, says least.
CREATE OR REPLACE FUNCTION df._kind_rank(kind text) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_position('{parked,lock,no handler,no engine,overdue,abandoned,running,ready,lost,retry,loop again,secret,scope,http ceiling,ceiling}',
                                   kind), CASE WHEN kind IN ('between', 'new', 'not begun') THEN 100 ELSE 50 END)
$$;

-- Of the first JOIN that is held up by others than those: which of its branches failed, and how many it waits for.
CREATE OR REPLACE FUNCTION df._failed_branches(run text) RETURNS TABLE (said text)
LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT format('%s %s failed; JOIN waits for %s more', CASE WHEN cardinality(b.failed) = 1 THEN 'branch' ELSE 'branches' END,
                  df._listed(b.failed), b.left)
    FROM (SELECT w.parent_id, array_agg(w.branch::text ORDER BY w.branch) FILTER (WHERE n.status = 'failed') AS failed,
                 count(*) FILTER (WHERE n.status NOT IN ('completed', 'failed', 'cancelled', 'skipped')) AS left
          FROM (SELECT w.node_id, w.parent_id, row_number() OVER (PARTITION BY w.parent_id ORDER BY w.ord) AS branch
                FROM df._nodes_of(run) w) w
          JOIN df.nodes n ON n.instance_id = run AND n.node_id = w.node_id
          JOIN df.nodes j ON j.instance_id = run AND j.node_id = w.parent_id AND j.node_type = 'JOIN' AND j.status = 'running'
          GROUP BY w.parent_id) b
    WHERE b.failed IS NOT NULL AND b.left > 0 ORDER BY b.parent_id LIMIT 1
$$;

CREATE OR REPLACE FUNCTION df._listed(items text[]) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT concat(array_to_string(items[:n - 1], ', ') || CASE WHEN n > 1 THEN ' and ' END, items[n]) FROM cardinality(items) n
$$;

CREATE OR REPLACE FUNCTION df._ordinal(number integer) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT number || CASE WHEN number % 100 BETWEEN 11 AND 13 THEN 'th'
                          ELSE CASE number % 10 WHEN 1 THEN 'st' WHEN 2 THEN 'nd' WHEN 3 THEN 'rd' ELSE 'th' END END
$$;

-- The same words as in the picture of a run (workbench/views/reasons.py).
CREATE OR REPLACE FUNCTION df._due_parts(what text, due timestamptz, now timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN due > now THEN jsonb_build_array(what || ' at ', jsonb_build_object('at', due), ', in ', jsonb_build_object('left', due))
                ELSE jsonb_build_array(what || ' now: it was due at ', jsonb_build_object('at', due)) END
$$;

-- Words and moments as one text; times of day are the session's.
CREATE OR REPLACE FUNCTION df._said(parts jsonb, now timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT string_agg(CASE WHEN jsonb_typeof(p.part) = 'string' THEN p.part #>> '{}'
                           WHEN p.part ? 'at' THEN to_char((p.part ->> 'at')::timestamptz,
                               CASE WHEN (p.part ->> 'at')::timestamptz::date = now::date THEN 'HH24:MI:SS' ELSE 'YYYY-MM-DD HH24:MI:SS' END)
                           WHEN p.part ? 'left' THEN df._duration(extract(epoch FROM (p.part ->> 'left')::timestamptz - now)::float8)
                           ELSE df._duration(extract(epoch FROM now - (p.part ->> 'for')::timestamptz)::float8) END, '' ORDER BY p.n)
    FROM jsonb_array_elements(parts) WITH ORDINALITY AS p (part, n)
$$;

-- As people say it: 4.2 s, 4 min 12 s, 2 d 4 h.
CREATE OR REPLACE FUNCTION df._duration(seconds double precision) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN seconds < 9.95 THEN trim_scale(round(greatest(seconds, 0)::numeric, 1)) || ' s'
                WHEN s.whole < 60 THEN s.whole || ' s'
                WHEN s.whole < 3600 THEN concat(s.whole / 60, ' min', ' ' || nullif(s.whole % 60, 0) || ' s')
                WHEN s.whole < 86400 THEN concat(s.whole / 3600, ' h', ' ' || nullif(s.whole % 3600 / 60, 0) || ' min')
                ELSE concat(s.whole / 86400, ' d', ' ' || nullif(s.whole % 86400 / 3600, 0) || ' h') END
    FROM (SELECT round(least(seconds, 1e15))::bigint AS whole) s
$$;
