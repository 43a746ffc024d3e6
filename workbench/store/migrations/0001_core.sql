-- Tables of the core: runs, their nodes, the attempts, the named values, and who is alive.
-- Only narrow rows change often; what a run is made of (graph, input, label, variables) is written once, in df.definitions.
-- The tables that each transition writes have no CHECKs and few indexes: df functions are their only writers, and five CHECKs
-- made a third of what a checkpoint costs (80 of 260 microseconds).

CREATE SEQUENCE df.engine_keys AS integer MINVALUE 1 CYCLE;

CREATE TABLE df.instances (
    id text PRIMARY KEY,                             -- 8 lower-case hex digits
    status text NOT NULL DEFAULT 'pending',          -- pending, running, completed, failed, cancelled
    submitted_by regrole NOT NULL,
    version bigint NOT NULL DEFAULT 0,               -- grows with every transition; proves an engine's copy current
    wake_at timestamptz,                             -- when an engine must look; null: nothing is due
    restart_of_run_id text REFERENCES df.instances (id),
    parent_run_id text,                              -- reserved for child runs
    idempotency_key text,
    error jsonb,                                     -- of a failed run: the error of the node that decided it
    parked jsonb,                                    -- set when deciding raised: engines leave the run alone
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    completed_at timestamptz GENERATED ALWAYS AS (CASE WHEN status = 'completed' THEN finished_at END) STORED,
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

CREATE INDEX instances_due ON df.instances (submitted_by, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX instances_live ON df.instances (submitted_by, id) WHERE status IN ('pending', 'running');
CREATE INDEX instances_restarts ON df.instances (restart_of_run_id) WHERE restart_of_run_id IS NOT NULL;
CREATE UNIQUE INDEX instances_idempotency ON df.instances (submitted_by, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE df.definitions (
    instance_id text PRIMARY KEY REFERENCES df.instances (id) ON DELETE CASCADE,
    submitted_by regrole NOT NULL,
    created_at timestamptz NOT NULL,                 -- as in df.instances; indexed here, where rows never change
    label text,
    graph json NOT NULL,                             -- json, not jsonb: the bytes stay as they were built
    input jsonb NOT NULL DEFAULT 'null',
    vars jsonb NOT NULL DEFAULT '{}',
    database text,
    max_attempts integer NOT NULL DEFAULT 1 CHECK (max_attempts >= 1),
    max_backoff interval NOT NULL DEFAULT '16 seconds' CHECK (max_backoff > interval '0'),
    on_failure text NOT NULL DEFAULT 'fail' CHECK (on_failure IN ('fail', 'continue'))
);

CREATE INDEX definitions_recent ON df.definitions (created_at DESC, instance_id);

CREATE TABLE df.nodes (
    instance_id text NOT NULL REFERENCES df.instances (id) ON DELETE CASCADE,
    node_id integer NOT NULL,                        -- its number in pre-order, from 0
    submitted_by regrole NOT NULL,
    node_type text NOT NULL,
    handler text,                                    -- of a PYTHON node: what an engine must have to run it
    status text NOT NULL DEFAULT 'pending',          -- ready, running, waiting, completed, failed, cancelled, skipped
    rev bigint NOT NULL DEFAULT 0,                   -- the run's version at this node's last transition
    attempt integer NOT NULL DEFAULT 0,              -- attempts ended that count towards max_attempts
    losses integer NOT NULL DEFAULT 0,               -- attempts that ended with their engine or connection
    faults integer NOT NULL DEFAULT 0,               -- checkpoints that failed after the step itself succeeded
    autocommit boolean NOT NULL DEFAULT false,       -- this statement cannot run in a transaction block
    token uuid,
    engine_id text,
    ready_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    result jsonb,
    result_node integer,                             -- a composite's value is that node's value
    columns jsonb,                                   -- [[name, type], …] of a SQL result, in select-list order
    error jsonb,
    PRIMARY KEY (instance_id, node_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

CREATE INDEX nodes_ready ON df.nodes (submitted_by, ready_at) WHERE status = 'ready';
CREATE INDEX nodes_running ON df.nodes (engine_id) WHERE status = 'running' AND token IS NOT NULL;

-- History; one row at the end of each attempt, never changed. No foreign key: its KEY SHARE lock on the run
-- would make steps that touch each other's runs deadlock.
CREATE TABLE df.attempts (
    instance_id text NOT NULL,
    node_id integer NOT NULL,
    rev bigint NOT NULL,                             -- the run's version when the attempt ended
    submitted_by regrole NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL,                           -- completed, failed, worker_lost, cancelled
    token uuid NOT NULL,
    engine_id text,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    error jsonb,
    delay interval,                                  -- until the next attempt, and who chose it
    delay_source text,                               -- backoff, retry_after, http_retry_after, worker_lost
    fingerprint text,                                -- of the handler's code
    exactly_once boolean NOT NULL,
    PRIMARY KEY (instance_id, node_id, rev)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);

CREATE TABLE df.values (
    instance_id text NOT NULL,
    scope text NOT NULL DEFAULT '',
    name text NOT NULL,
    submitted_by regrole NOT NULL,
    node_id integer NOT NULL,
    value jsonb NOT NULL,
    columns jsonb,
    PRIMARY KEY (instance_id, scope, name)
);

CREATE TABLE df.engines (
    id text PRIMARY KEY,
    lock_key integer NOT NULL UNIQUE DEFAULT nextval('df.engine_keys'),
    role regrole NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    schema_version integer NOT NULL,
    backend_pid integer NOT NULL,                    -- of the session that holds the advisory lock
    handlers text[] NOT NULL DEFAULT '{}',
    ready boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    stopped_at timestamptz,                          -- an orderly end
    died_at timestamptz                              -- found dead by another engine
) WITH (fillfactor = 50);

CREATE INDEX engines_alive ON df.engines (role) WHERE stopped_at IS NULL AND died_at IS NULL;

-- Every other session of an engine, so that recovery can end the backends that a killed process left behind.
CREATE TABLE df.sessions (
    engine_id text NOT NULL REFERENCES df.engines (id) ON DELETE CASCADE,
    pid integer NOT NULL,
    backend_start timestamptz NOT NULL,
    PRIMARY KEY (engine_id, pid)
);

CREATE TABLE df.vars (
    owner regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    name text NOT NULL,
    value text,
    PRIMARY KEY (owner, name)
);

CREATE TABLE df.settings (
    name text PRIMARY KEY,
    value jsonb NOT NULL
);

ALTER TABLE df.instances ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.definitions ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.nodes ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.attempts ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.values ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.vars ENABLE ROW LEVEL SECURITY;

CREATE POLICY own ON df.instances USING (submitted_by = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY own ON df.definitions USING (submitted_by = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY own ON df.nodes USING (submitted_by = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY own ON df.attempts USING (submitted_by = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY own ON df.values USING (submitted_by = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY own ON df.vars USING (owner = (SELECT quote_ident(current_user)::regrole));
