-- `transaction_mode => 'new'`: the start is made in a second session of the same role, and stays when the caller rolls back.
-- Needs the extension dblink. Python's `bench.start` is such a session already.

CREATE OR REPLACE FUNCTION df._start_elsewhere(
    fut text, label text, database text, max_attempts integer, max_backoff interval, on_failure text,
    idempotency_key text, on_conflict text, input jsonb
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    schema regnamespace := (SELECT e.extnamespace FROM pg_extension e WHERE e.extname = 'dblink');
    session text := 'df_start_' || gen_random_uuid();
    call text := format(
        'SELECT CASE WHEN current_user = %L THEN df.start(%L, %L, %L, ''caller'', %L, %L, %L, %L, %L, %L) END',
        current_user, fut, label, database, max_attempts, max_backoff, on_failure, idempotency_key, on_conflict, input);
    run text;
BEGIN
    IF df._in_workflow() THEN
        RAISE EXCEPTION 'df.start(…, ''new'') cannot be called inside a workflow - a step''s effects and its checkpoint are one transaction. '
            'Use transaction_mode ''caller''.' USING ERRCODE = '55000';
    ELSIF fut !~ '^\s*\{' THEN
        PERFORM df._refuse_helper();    -- the mark is this session's
    END IF;
    IF schema IS NULL THEN
        RAISE EXCEPTION 'df.start() with transaction_mode ''new'' needs the extension dblink, which this database does not have: nothing was started'
            USING ERRCODE = '0A000', HINT = 'CREATE EXTENSION dblink (as a role that may), or start on a connection of its own with transaction_mode ''caller''.';
    END IF;
    PERFORM df._open_session(schema, session);
    BEGIN
        EXECUTE format('SELECT run FROM %s.dblink($1, $2) AS s (run text)', schema) INTO run USING session, call;
    EXCEPTION WHEN OTHERS THEN
        EXECUTE format('SELECT %s.dblink_disconnect($1)', schema) USING session;
        RAISE;
    END;
    EXECUTE format('SELECT %s.dblink_disconnect($1)', schema) USING session;
    IF run IS NULL THEN
        RAISE EXCEPTION 'df.start() with transaction_mode ''new'' reached a session of another role than "%": nothing was started', current_user
            USING ERRCODE = '28000', HINT = 'Look at the user mapping of the foreign server df_loopback.';
    END IF;
    RETURN run;
END $$;

-- A second session of this role: through the foreign server df_loopback when the administrator made one (a user mapping can
-- hold the password that dblink asks of ordinary roles), else to this server's own socket.
CREATE OR REPLACE FUNCTION df._open_session(schema regnamespace, session text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    target text := 'df_loopback';
BEGIN
    IF NOT EXISTS (SELECT FROM pg_foreign_server s WHERE s.srvname = target) THEN
        target := df._loopback();
    END IF;
    EXECUTE format('SELECT %s.dblink_connect($1, $2)', schema) USING session, target;
    EXECUTE format('SELECT %s.dblink_exec($1, %L)', schema, 'SET statement_timeout = ''30s''; SET lock_timeout = ''30s''') USING session;
EXCEPTION WHEN connection_exception OR insufficient_privilege OR sql_routine_exception THEN
    RAISE EXCEPTION 'df.start() with transaction_mode ''new'' could not open a second session as "%": %', current_user, SQLERRM
        USING ERRCODE = '08001', HINT = 'Ask the administrator for a foreign server df_loopback (dblink_fdw) with a user mapping that holds '
        'the role''s password, or start on a connection of its own with transaction_mode ''caller''.';
END $$;

CREATE OR REPLACE FUNCTION df._loopback() RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    host text;
BEGIN
    -- Only superusers and pg_read_all_settings see where the socket is; for others libpq's default has to do.
    IF pg_has_role('pg_read_all_settings', 'USAGE') THEN
        host := nullif(split_part(current_setting('unix_socket_directories'), ',', 1), '');
    END IF;
    RETURN concat_ws(' ', 'dbname=' || df._conninfo_value(current_database()), 'user=' || df._conninfo_value(current_user),
                     'port=' || current_setting('port'), 'host=' || df._conninfo_value(host),
                     'application_name=' || df._conninfo_value('workbench df.start'));
END $$;

CREATE OR REPLACE FUNCTION df._conninfo_value(value text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT '''' || regexp_replace(value, '([\\''])', '\\\1', 'g') || '''' $$;
