-- Who is alive. Death needs no cooperation: a lock that is gone or a heartbeat that stands still, seen by another engine.

-- Takes a place among the engines; `max_activity` and `max_http` are the ceilings that it has read.
CREATE OR REPLACE FUNCTION df._enter(
    engine text, host text, pid integer, version text, schema_version integer, max_activity integer, max_http integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    key integer;
BEGIN
    PERFORM df._gate();  -- nobody comes to believe that it is alone meanwhile
    INSERT INTO df.engines (id, role, host, pid, version, schema_version, backend_pid, max_activity, max_http)
    VALUES (engine, df._me(), host, pid, version, schema_version, pg_backend_pid(), max_activity, max_http) RETURNING lock_key INTO key;
    PERFORM pg_advisory_lock(df._lock_class(), key);
    RETURN key;
END $$;

-- The first half of every engine's advisory lock: 'df' in ASCII, so that it can be told apart in pg_locks.
CREATE OR REPLACE FUNCTION df._lock_class() RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT 25702 $$;

-- Whether an engine's session holds its lock; looked up, never tried by taking it.
CREATE OR REPLACE FUNCTION df._lock_held(key integer, backend integer) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM pg_locks l
                   WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.pid = backend
                     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                     AND l.classid = df._lock_class()::oid AND l.objid = key::oid)
$$;

-- A heartbeat; also how an engine learns that it was declared dead, that the schema has moved on, or that it is (not) alone.
-- `lone`: it has kept the activity ceiling by itself until now, without the gate. Before it begins to, it is noted; before it is
-- noted that it has ceased to, it has, for a heartbeat.
CREATE OR REPLACE FUNCTION df._beat(engine text, handlers text[], lone boolean)
RETURNS TABLE (alive boolean, schema_version integer, alone boolean) LANGUAGE plpgsql AS $$
DECLARE
    unseen boolean := df._is_alone(engine);
BEGIN
    IF unseen AND NOT lone THEN
        PERFORM df._gate();
        unseen := df._is_alone(engine);
    END IF;
    UPDATE df.engines e SET last_seen_at = clock_timestamp(), alone = lone OR unseen,
           ready = e.schema_version = (SELECT max(m.version) FROM df.schema_migrations m),
           handlers = CASE WHEN _beat.handlers IS NULL THEN e.handlers ELSE _beat.handlers END
    WHERE e.id = engine AND e.died_at IS NULL AND e.stopped_at IS NULL;
    RETURN QUERY SELECT FOUND, (SELECT max(m.version) FROM df.schema_migrations m), unseen;
END $$;

-- The session that held the lock broke and this is its successor.
CREATE OR REPLACE FUNCTION df._retake(engine text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    key integer;
BEGIN
    UPDATE df.engines e SET backend_pid = pg_backend_pid(), last_seen_at = clock_timestamp()
    WHERE e.id = engine AND e.died_at IS NULL AND e.stopped_at IS NULL RETURNING lock_key INTO key;
    IF key IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_lock(df._lock_class(), key);
    RETURN true;
END $$;

-- The other engines of this role that count as alive, and whether each one's lock is held. A lock that is gone proves nothing
-- when the server has lost all sessions since the engine was last heard of: then `trust_in` is how long the server has had
-- its sessions, else infinite. (A restart frees every lock at once; one after a crash shows by its reset statistics.)
CREATE OR REPLACE FUNCTION df._watch(engine text)
RETURNS TABLE (id text, held boolean, last_seen_at timestamptz, trust_in double precision)
LANGUAGE sql STABLE AS $$
    SELECT e.id, df._lock_held(e.lock_key, e.backend_pid), e.last_seen_at,
           CASE WHEN e.last_seen_at > s.since THEN 'infinity' ELSE extract(epoch FROM clock_timestamp() - s.since)::float8 END
    FROM df.engines e CROSS JOIN (
        SELECT greatest(pg_postmaster_start_time(), (SELECT b.stats_reset FROM pg_stat_bgwriter b)) AS since) s WHERE e.role = df._me() AND e.id <> engine AND e.stopped_at IS NULL AND e.died_at IS NULL
$$;

-- One conditional update: dead unless it was heard of since the observer looked.
CREATE OR REPLACE FUNCTION df._bury(engine text, seen timestamptz) RETURNS boolean
LANGUAGE sql AS $$
    UPDATE df.engines e SET died_at = clock_timestamp(), ready = false
    WHERE e.id = engine AND e.role = df._me() AND e.last_seen_at = seen AND e.stopped_at IS NULL AND e.died_at IS NULL RETURNING true
$$;

CREATE OR REPLACE FUNCTION df._leave(engine text) RETURNS void LANGUAGE sql AS $$
    DELETE FROM df.sessions s WHERE s.engine_id = engine;
    DELETE FROM df.releasing r WHERE r.engine_id = engine;
    UPDATE df.engines e SET stopped_at = clock_timestamp(), ready = false WHERE e.id = engine AND e.stopped_at IS NULL AND e.died_at IS NULL;
    SELECT df._tell_hungry(engine);
$$;

CREATE OR REPLACE FUNCTION df._add_session(engine text, backend integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO df.sessions (engine_id, pid, backend_start)
    SELECT engine, a.pid, a.backend_start FROM pg_stat_activity a WHERE a.pid = backend
    ON CONFLICT (engine_id, pid) DO UPDATE SET backend_start = excluded.backend_start;
$$;

-- Ends the backends that dead engines left behind, and waits until they are gone: a killed client's statement goes on otherwise.
-- Exactly the rows that are deleted are ended; a second observer waits for the first one's commit, and so for the end of them too.
CREATE OR REPLACE FUNCTION df._end_sessions() RETURNS bigint LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM df.sessions s USING df.engines e WHERE e.id = s.engine_id AND e.role = df._me() AND e.died_at IS NOT NULL
        RETURNING s.pid, s.backend_start
    )
    SELECT count(pg_terminate_backend(a.pid, 5000)) FROM gone g JOIN pg_stat_activity a ON a.pid = g.pid AND a.backend_start = g.backend_start
$$;

-- Running leaves whose engine or outside worker is not alive any more, and what became of it; NULL when it left in order and could
-- only not give them back.
CREATE OR REPLACE FUNCTION df._orphans(most integer)
RETURNS TABLE (instance_id text, node_id integer, token uuid, lost text) LANGUAGE sql SET enable_seqscan = off AS $$
    SELECT df._end_leases();
    SELECT n.instance_id, n.node_id, n.token,
           CASE WHEN n.engine_id IS NULL THEN 'the lease of the worker that executed this step has passed'
                WHEN NOT EXISTS (SELECT FROM df.engines e WHERE e.id = n.engine_id AND e.died_at IS NULL AND e.stopped_at IS NOT NULL)
                THEN 'the engine that executed this step is gone' END
    FROM df.nodes n
    WHERE n.status = 'running' AND n.token IS NOT NULL AND n.submitted_by = df._me()
      AND NOT EXISTS (SELECT FROM df.engines e WHERE e.id = n.engine_id AND e.died_at IS NULL AND e.stopped_at IS NULL)
      AND NOT EXISTS (SELECT FROM df.tasks t WHERE t.token = n.token)
    ORDER BY n.instance_id, n.node_id LIMIT most
$$;

-- Running leaves that bear this engine's name: compared with the tokens it holds after every reconnect and now and then.
CREATE OR REPLACE FUNCTION df._held(engine text)
RETURNS TABLE (instance_id text, node_id integer, token uuid) LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT n.instance_id, n.node_id, n.token FROM df.nodes n
    WHERE n.status = 'running' AND n.token IS NOT NULL AND n.engine_id = engine
$$;

-- Makes live runs due in which nothing is ready, running or waiting: an engine takes another look at them.
CREATE OR REPLACE FUNCTION df._revive(most integer) RETURNS void
LANGUAGE sql SET enable_seqscan = off AS $$
    UPDATE df.instances i SET wake_at = df.now() WHERE i.id IN (
        SELECT c.id FROM df.instances c
        WHERE c.submitted_by = df._me() AND c.status = 'running' AND c.wake_at IS NULL AND c.parked IS NULL
          AND NOT EXISTS (SELECT FROM df.nodes n WHERE n.instance_id = c.id
                          AND (n.status IN ('ready', 'waiting') OR (n.status = 'running' AND n.token IS NOT NULL)))
        ORDER BY c.id LIMIT most FOR NO KEY UPDATE SKIP LOCKED)
$$;
