-- Starting, asking, waiting, cancelling. Nothing here decides what runs next: a start leaves a run that is due,
-- and an engine takes it from there.

CREATE OR REPLACE FUNCTION df.start(
    fut text, label text DEFAULT NULL, database text DEFAULT NULL, transaction_mode text DEFAULT 'caller',
    max_attempts integer DEFAULT 1, max_backoff interval DEFAULT '16 seconds', on_failure text DEFAULT 'fail',
    idempotency_key text DEFAULT NULL, on_conflict text DEFAULT 'return', input jsonb DEFAULT NULL
) RETURNS text LANGUAGE sql AS $$
    SELECT df._start(fut, label, database, transaction_mode, max_attempts, max_backoff, on_failure,
                     idempotency_key, on_conflict, input, '{}', true)
$$;

-- What df.start and Python share; `vars` overlays the caller's df.vars, `tell` wakes the engines of the role.
CREATE OR REPLACE FUNCTION df._start(
    fut text, label text, database text, transaction_mode text, max_attempts integer, max_backoff interval, on_failure text,
    idempotency_key text, on_conflict text, input jsonb, vars jsonb, tell boolean
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    run text;
    graph text;
    given jsonb := coalesce(input, 'null');
    definition df.definitions;
BEGIN
    PERFORM df._check_mode(transaction_mode);
    IF lower(transaction_mode) = 'new' THEN
        RETURN df._start_elsewhere(fut, label, database, max_attempts, max_backoff, on_failure, idempotency_key, on_conflict, input);
    END IF;
    PERFORM df._check_policy(max_attempts, max_backoff, on_failure, idempotency_key, on_conflict);
    graph := df._to_graph(fut);
    PERFORM df._check_place(database);
    IF idempotency_key IS NOT NULL THEN
        run := df._keyed_run(idempotency_key, on_conflict, graph, given, database, max_attempts, max_backoff, on_failure);
        IF run IS NOT NULL THEN
            RETURN run;
        END IF;
    END IF;
    PERFORM df._check_graph(graph);
    IF strpos(graph, '"MAP"') > 0 THEN
        PERFORM df._check_maps(graph::jsonb, given);
    END IF;
    IF on_failure = 'continue' THEN
        PERFORM df._warn_of_late_waits(graph::jsonb);
    END IF;
    definition := df._definition(graph, given);
    definition.label := label;
    definition.vars := definition.vars || vars;
    definition.database := database;
    definition.max_attempts := max_attempts;
    definition.max_backoff := max_backoff;
    definition.on_failure := on_failure;
    definition.flow := df._flow_slug(graph);
    IF definition.flow IS NOT NULL THEN
        definition.flow_version := df._note_flow(definition.flow, graph);
    END IF;
    RETURN df._new_run(definition, idempotency_key, NULL, tell);
END $$;

-- A loop that waits after its work has nothing to wait for when the work has failed.
CREATE OR REPLACE FUNCTION df._warn_of_late_waits(graph jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    late record;
BEGIN
    FOR late IN
        WITH walk AS MATERIALIZED (SELECT w.node_id, w.path, w.node ->> 'node_type' AS kind FROM df._walk(graph) w)
        SELECT l.node_id, w.kind FROM walk l JOIN walk w ON regexp_replace(w.path, '(\.right)+$', '') = l.path || '.left'
        WHERE l.kind = 'LOOP' AND w.kind IN ('WAIT_SCHEDULE', 'SLEEP', 'SIGNAL') AND w.path LIKE '%.right'
    LOOP
        RAISE NOTICE 'loop #% ends with its % step: an iteration that fails is followed by the next one after a second', late.node_id, late.kind
            USING HINT = 'Put the wait first, so that a failed iteration waits for its time, too.';
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION df._check_mode(transaction_mode text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF transaction_mode IS NULL OR lower(transaction_mode) NOT IN ('caller', 'new') THEN
        RAISE EXCEPTION 'invalid transaction_mode "%" for df.start(): expected ''caller'' or ''new''', coalesce(transaction_mode, 'NULL') USING ERRCODE = '22023';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION df._check_policy(
    max_attempts integer, max_backoff interval, on_failure text, idempotency_key text, on_conflict text
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF max_attempts IS NULL OR max_attempts < 1 THEN
        RAISE EXCEPTION 'invalid max_attempts % for df.start(): expected at least 1, the first try included', coalesce(max_attempts::text, 'NULL') USING ERRCODE = '22023';
    ELSIF max_backoff IS NULL OR max_backoff <= interval '0' THEN
        RAISE EXCEPTION 'invalid max_backoff % for df.start(): expected an interval above zero', coalesce(max_backoff::text, 'NULL') USING ERRCODE = '22023';
    ELSIF on_failure IS NULL OR on_failure NOT IN ('fail', 'continue') THEN
        RAISE EXCEPTION 'invalid on_failure "%" for df.start(): expected ''fail'' or ''continue''', coalesce(on_failure, 'NULL') USING ERRCODE = '22023';
    ELSIF on_conflict IS NULL OR on_conflict NOT IN ('return', 'replace') THEN
        RAISE EXCEPTION 'invalid on_conflict "%" for df.start(): expected ''return'' or ''replace''', coalesce(on_conflict, 'NULL') USING ERRCODE = '22023';
    ELSIF octet_length(idempotency_key) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'invalid idempotency_key of % bytes for df.start(): expected 1 to 1000', octet_length(idempotency_key) USING ERRCODE = '22023',
            HINT = 'Use a digest of a longer key, such as md5(key).';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION df._check_place(database text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF database IS NOT NULL AND NOT EXISTS (SELECT FROM pg_database d WHERE d.datname = database) THEN
        RAISE EXCEPTION 'database "%" does not exist', database USING ERRCODE = '3D000';
    ELSIF NOT (SELECT rolcanlogin FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'role "%" has no LOGIN, so no engine could run its workflows', current_user USING ERRCODE = '42501',
            HINT = format('ALTER ROLE %I LOGIN, or start the workflow as another role.', current_user);
    END IF;
END $$;

-- The run that already holds this key, if it may be returned; NULL when a new one is to be made.
CREATE OR REPLACE FUNCTION df._keyed_run(
    key text, on_conflict text, graph text, input jsonb, database text, max_attempts integer, max_backoff interval, on_failure text
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    holder text;
    newest text;
    same boolean;
BEGIN
    -- Two sessions with one key: the second waits here until the first has committed, then sees its run.
    PERFORM pg_advisory_xact_lock(hashtextextended('df.start ' || df._me()::oid || ' ' || key, 0));
    SELECT i.id INTO holder FROM df.instances i WHERE i.submitted_by = df._me() AND i.idempotency_key = key;
    IF holder IS NULL THEN
        RETURN NULL;
    ELSIF on_conflict = 'replace' THEN
        PERFORM df._replace(holder, key);
        RETURN NULL;
    END IF;
    SELECT (d.graph::text, d.input, d.database, d.max_attempts, d.max_backoff, d.on_failure)
           IS NOT DISTINCT FROM (graph, input, database, max_attempts, max_backoff, on_failure)
    INTO same FROM df.definitions d WHERE d.instance_id = holder;
    IF NOT same THEN
        RAISE EXCEPTION 'idempotency_key "%" is held by run %, which has another graph, input, database or policy: nothing was started', key, holder
            USING ERRCODE = '23505', HINT = 'Use another key, or on_conflict => ''replace'' to cancel that run and start this one.';
    END IF;
    SELECT l.run_id INTO newest FROM df.lineage(holder) l WHERE l.is_latest;
    RETURN newest;
END $$;

-- A run, its retries and theirs.
CREATE OR REPLACE FUNCTION df._retries(run text) RETURNS SETOF text
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE lineage AS (
        SELECT run AS id UNION ALL
        SELECT i.id FROM df.instances i JOIN lineage l ON i.restart_of_run_id = l.id
    )
    SELECT id FROM lineage
$$;

-- Frees the key and cancels whatever of the holder's lineage is alive: a retry bears no key, but it is the same work.
CREATE OR REPLACE FUNCTION df._replace(holder text, key text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    run record;
BEGIN
    IF EXISTS (SELECT FROM df._retries(holder) r WHERE r = current_setting('df.run', true)) THEN
        RAISE EXCEPTION 'run % cannot replace itself, which its own step asked for with idempotency_key "%": nothing was started',
            current_setting('df.run', true), key USING ERRCODE = '55000', HINT = 'Start the next run under another key.';
    END IF;
    FOR run IN SELECT i.id FROM df.instances i WHERE i.id IN (SELECT df._retries(holder)) ORDER BY i.id FOR NO KEY UPDATE LOOP
        -- The status is read again now that the row is locked.
        IF (SELECT i.status IN ('pending', 'running') FROM df.instances i WHERE i.id = run.id) THEN
            PERFORM df._cancel(run.id, 'Replaced by a new start with the same idempotency key');
        END IF;
    END LOOP;
    UPDATE df.instances i SET idempotency_key = NULL WHERE i.id = holder AND i.idempotency_key IS NOT NULL;
END $$;

-- Raises with the first fault in pre-order.
CREATE OR REPLACE FUNCTION df._check_graph(graph text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    fault record;
BEGIN
    -- A single leaf, the most frequent graph, needs no walk.
    IF graph::jsonb ?| '{left_node,right_node,condition_node,extra_nodes}' THEN
        SELECT CASE WHEN w.depth > 256 THEN 'root' ELSE w.path END AS path, f.text INTO fault
        FROM df._walk(graph::jsonb) w CROSS JOIN LATERAL df._fault(w.node, w.depth) AS f (text)
        WHERE f.text IS NOT NULL ORDER BY w.depth > 256 DESC, w.node_id LIMIT 1;
    ELSE
        SELECT 'root' AS path, df._fault(graph::jsonb, 0) AS text INTO fault;
    END IF;
    IF fault.text IS NOT NULL THEN
        RAISE EXCEPTION 'Invalid durable function graph: %: %', fault.path, fault.text USING ERRCODE = '22023';
    END IF;
END $$;

-- Stores one row a node.
CREATE OR REPLACE FUNCTION df._define(run text, graph text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    total bigint;
BEGIN
    INSERT INTO df.nodes (instance_id, node_id, submitted_by, node_type, handler, gate)
    SELECT run, w.node_id, df._me(), w.node ->> 'node_type',
           CASE w.node ->> 'node_type' WHEN 'PYTHON' THEN (w.node ->> 'query')::jsonb ->> 'handler' END,
           CASE WHEN w.node ->> 'node_type' IN ('HTTP', 'HTTP_MULTIPART') THEN -1 END
    FROM df._walk(graph::jsonb) w ORDER BY w.node_id;
    GET DIAGNOSTICS total = ROW_COUNT;
    IF strpos(graph, '"MAP"') > 0 THEN
        PERFORM df._note_patterns(run, graph::jsonb);
    END IF;
    IF strpos(graph, '"retry":{') > 0 THEN
        PERFORM df._note_retries(run, graph::jsonb);
    END IF;
    IF strpos(graph, '"policy":{') > 0 THEN
        PERFORM df._note_scopes(run, graph::jsonb);
    END IF;
    IF total > 10000 THEN
        RAISE EXCEPTION 'Invalid durable function graph: root: Workflow exceeds maximum node count of 10000. It has %. '
            'Handle many rows in one SQL or Python step, or split the graph into several runs.', total USING ERRCODE = '22023';
    END IF;
END $$;

-- The bodies of MAPs: their elements are like them, they themselves are never executed.
CREATE OR REPLACE FUNCTION df._note_patterns(run text, graph jsonb) RETURNS void
LANGUAGE sql AS $$
    WITH RECURSIVE walk AS MATERIALIZED (
        SELECT * FROM df._walk(graph)
    ), below AS (
        SELECT w.node_id FROM walk m JOIN walk w ON w.parent_id = m.node_id WHERE m.node ->> 'node_type' = 'MAP'
        UNION SELECT w.node_id FROM below b JOIN walk w ON w.parent_id = b.node_id
    )
    UPDATE df.nodes n SET status = 'pattern' FROM below b WHERE n.instance_id = run AND n.node_id = b.node_id
$$;

-- Leaves for which a node at or above them says how often they are tried; the nearest one counts.
CREATE OR REPLACE FUNCTION df._note_retries(run text, graph jsonb) RETURNS void
LANGUAGE sql AS $$
    WITH RECURSIVE walk AS MATERIALIZED (
        SELECT * FROM df._walk(graph)
    ), said AS (
        SELECT w.node_id, (w.node #>> '{retry,max_attempts}')::integer AS most FROM walk w WHERE w.node_id = 0
        UNION ALL
        SELECT w.node_id, coalesce((w.node #>> '{retry,max_attempts}')::integer, s.most) FROM said s JOIN walk w ON w.parent_id = s.node_id
    )
    UPDATE df.nodes n SET max_attempts = s.most FROM said s WHERE n.instance_id = run AND n.node_id = s.node_id AND s.most IS NOT NULL
$$;

-- The nodes under a policy, and for each HTTP leaf the innermost of them around it.
CREATE OR REPLACE FUNCTION df._note_scopes(run text, graph jsonb) RETURNS void
LANGUAGE sql AS $$
    WITH walk AS MATERIALIZED (SELECT * FROM df._walk(graph))
    INSERT INTO df.scopes (instance_id, node_id, last_node, submitted_by, max_concurrency)
    SELECT run, w.node_id,
           coalesce((SELECT min(n.node_id) - 1 FROM walk n WHERE n.node_id > w.node_id AND n.depth <= w.depth), (SELECT max(n.node_id) FROM walk n)),
           df._me(), (w.node #>> '{policy,http,max_concurrency}')::integer
    FROM walk w WHERE w.node #> '{policy,http}' IS NOT NULL;
    UPDATE df.nodes n SET gate = s.scope
    FROM (SELECT l.node_id, max(s.node_id) AS scope FROM df.nodes l JOIN df.scopes s ON s.instance_id = run AND l.node_id BETWEEN s.node_id AND s.last_node
          WHERE l.instance_id = run AND l.gate IS NOT NULL GROUP BY l.node_id) s
    WHERE n.instance_id = run AND n.node_id = s.node_id;
$$;

CREATE OR REPLACE FUNCTION df.status(instance_id text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$ SELECT i.status FROM df.instances i WHERE i.id = $1 $$;

CREATE OR REPLACE FUNCTION df.result(instance_id text) RETURNS text
LANGUAGE sql VOLATILE STRICT AS $$
    SELECT coalesce(root.result, leaf.result)::text
    FROM df.nodes root
    LEFT JOIN df.nodes leaf ON leaf.instance_id = root.instance_id AND leaf.node_id = root.result_node
    WHERE root.instance_id = $1 AND root.node_id = 0 AND root.status = 'completed'
$$;

CREATE OR REPLACE FUNCTION df.error(instance_id text) RETURNS jsonb
LANGUAGE sql VOLATILE STRICT AS $$ SELECT i.error FROM df.instances i WHERE i.id = $1 $$;

CREATE OR REPLACE FUNCTION df.await_instance(instance_id text, timeout_seconds integer DEFAULT 30) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    seen text;
BEGIN
    IF df._in_workflow() THEN
        RAISE EXCEPTION 'df.await_instance() cannot be called inside a workflow - the step would wait for a run that may need its place. Use df.start and a later step.' USING ERRCODE = '55000';
    END IF;
    PERFORM df._mark_helper('df.await_instance');
    IF timeout_seconds <= 0 THEN
        RAISE EXCEPTION 'Timeout must be positive' USING ERRCODE = '22023';
    END IF;
    FOR _ IN 1 .. timeout_seconds::bigint * 10 LOOP
        SELECT i.status INTO seen FROM df.instances i WHERE i.id = $1;   -- a fresh snapshot each time (READ COMMITTED)
        IF seen IS NULL THEN
            RAISE EXCEPTION 'Instance not found: %', instance_id USING ERRCODE = '02000';
        ELSIF seen IN ('completed', 'failed', 'cancelled') THEN
            RETURN seen;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RAISE EXCEPTION 'Timeout after %s waiting for instance % (status: %). Check if an engine is running: SELECT * FROM df.engines.', timeout_seconds, instance_id, seen
        USING ERRCODE = '57014';
END $$;

-- A signal is a row until a wait takes it. Locks nothing: steps may signal each other's runs freely.
CREATE OR REPLACE FUNCTION df.signal(instance_id text, signal_name text, signal_data text DEFAULT '{}') RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
    run record;
    unread bigint;
BEGIN
    IF $1 = '' THEN
        RAISE EXCEPTION 'Instance id cannot be empty' USING ERRCODE = '22023';
    ELSIF signal_name = '' THEN
        RAISE EXCEPTION 'Signal name cannot be empty' USING ERRCODE = '22023';
    END IF;
    -- Who may only look at a run sees it, too.
    SELECT i.status, i.submitted_by INTO run FROM df.instances i
    WHERE i.id = $1 AND (i.submitted_by = df._me() OR NOT row_security_active('df.instances'));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Instance not found or access denied: %', $1 USING ERRCODE = '02000';
    ELSIF run.status NOT IN ('pending', 'running') THEN
        RAISE EXCEPTION 'run % is already %: the signal "%" was not sent', $1, run.status, signal_name USING ERRCODE = '55000';
    END IF;
    SELECT count(*) INTO unread FROM (SELECT FROM df.signals s WHERE s.instance_id = $1 AND s.name = signal_name LIMIT 1000) AS s;
    IF unread >= 1000 THEN
        RAISE EXCEPTION 'run % has 1000 unread signals "%": this one was not sent', $1, signal_name USING ERRCODE = '54000',
            HINT = 'They are taken one by one by waits of that name, df.wait_for_signal.';
    END IF;
    INSERT INTO df.signals (instance_id, name, submitted_by, sent_by, sent_at, data)
    VALUES ($1, signal_name, run.submitted_by, df._me(), df.now(), df._json_or_text(signal_data));
    PERFORM df._tell(run.submitted_by);
    RETURN 'OK';
END $$;

-- A text as JSON if it is JSON, else as a JSON string.
CREATE OR REPLACE FUNCTION df._json_or_text(text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN $1::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN to_jsonb($1);
END $$;

-- Cancelling needs no engine: the run and its unfinished nodes end here; whatever still executes is refused when it reports.
CREATE OR REPLACE FUNCTION df.cancel(instance_id text, reason text DEFAULT 'Cancelled by user') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    seen text;
BEGIN
    IF current_setting('df.run', true) = instance_id THEN
        -- From inside one of the run's own SQL steps: the step's transaction must not hold the run's lock before its
        -- checkpoint, so this leaves word for the checkpoint, which cancels the run instead of going on.
        PERFORM set_config('df.cancel', coalesce(reason, ''), true);
        RETURN format('Instance %s cancelled: %s', instance_id, reason);
    END IF;
    SELECT i.status INTO seen FROM df.instances i WHERE i.id = $1 FOR NO KEY UPDATE;
    IF seen IS NULL THEN
        RAISE EXCEPTION 'Instance not found or access denied: %', instance_id USING ERRCODE = '02000';
    ELSIF seen IN ('completed', 'failed') THEN
        RAISE EXCEPTION 'run % is already %: nothing was cancelled', instance_id, seen USING ERRCODE = '55000';
    ELSIF seen <> 'cancelled' THEN
        PERFORM df._cancel(instance_id, reason);
    END IF;
    RETURN format('Instance %s cancelled: %s', instance_id, reason);
END $$;

-- The transition itself; the caller holds the run's lock and knows that it is live.
CREATE OR REPLACE FUNCTION df._cancel(run text, reason text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now timestamptz := df.now();
    next_version bigint;
BEGIN
    UPDATE df.instances i SET status = 'cancelled', version = version + 1, wake_at = NULL, finished_at = now, updated_at = now,
           idempotency_key = NULL, error = jsonb_build_object('type', 'Cancelled', 'message', reason)
    WHERE i.id = run RETURNING version INTO next_version;
    -- A claim needs no lock of the run: from here on there is none that the next two statements would see differently.
    PERFORM FROM df.nodes n WHERE n.instance_id = run AND n.status IN ('ready', 'waiting') FOR NO KEY UPDATE;
    INSERT INTO df.attempts (instance_id, node_id, rev, submitted_by, attempt, outcome, token, engine_id, started_at, finished_at, exactly_once)
    SELECT run, n.node_id, next_version, n.submitted_by, n.attempt, 'cancelled', n.token, n.engine_id, n.started_at, now,
           n.node_type = 'SQL' AND NOT n.autocommit
    FROM df.nodes n WHERE n.instance_id = run AND n.status = 'running' AND n.token IS NOT NULL;
    INSERT INTO df.releasing (token, instance_id, submitted_by, engine_id, gate)
    SELECT n.token, n.instance_id, n.submitted_by, n.engine_id, n.gate
    FROM df.nodes n WHERE n.instance_id = run AND n.status = 'running' AND n.token IS NOT NULL
        AND EXISTS (SELECT FROM df.engines e WHERE e.id = n.engine_id);
    DELETE FROM df.tasks t WHERE t.instance_id = run AND t.token IS NULL;
    UPDATE df.nodes n SET status = 'cancelled', rev = next_version, token = NULL, finished_at = now
    WHERE n.instance_id = run AND n.status IN ('pending', 'ready', 'running', 'waiting');
    PERFORM df._tell((SELECT i.submitted_by FROM df.instances i WHERE i.id = run));
END $$;
