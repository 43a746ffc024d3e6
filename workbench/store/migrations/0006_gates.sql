-- Ceilings over all engines, and policy scopes of HTTP steps.

ALTER TABLE df.nodes ADD COLUMN gate integer;              -- of an HTTP leaf: the innermost scope around it, -1 for none

-- Ordinary leaves wait in one line; HTTP leaves in one a scope, so that what a full scope holds back is skipped, not searched.
DROP INDEX df.nodes_ready;
CREATE INDEX nodes_ready ON df.nodes (submitted_by, ready_at) WHERE status = 'ready' AND gate IS NULL;
CREATE INDEX nodes_ready_http ON df.nodes (submitted_by, ready_at) WHERE status = 'ready' AND gate = -1;
CREATE INDEX nodes_running_http ON df.nodes (instance_id, gate) WHERE status = 'running' AND gate IS NOT NULL;
CREATE INDEX nodes_ready_scoped ON df.nodes (submitted_by, instance_id, gate, ready_at, node_id) WHERE status = 'ready' AND gate >= 0;

-- A node under a policy; everything below it, up to `last_node`, shares the limit.
CREATE TABLE df.scopes (
    instance_id text NOT NULL REFERENCES df.instances (id) ON DELETE CASCADE,
    node_id integer NOT NULL,
    last_node integer NOT NULL,
    submitted_by regrole NOT NULL,
    max_concurrency integer NOT NULL,
    PRIMARY KEY (instance_id, node_id)
);

-- Cancelled attempts whose engine has not yet confirmed their end: what they execute may still be going on.
CREATE TABLE df.releasing (
    token uuid PRIMARY KEY,
    instance_id text NOT NULL,
    submitted_by regrole NOT NULL,
    engine_id text NOT NULL REFERENCES df.engines (id) ON DELETE CASCADE,
    gate integer                                           -- as that of the node
);

ALTER TABLE df.engines
    ADD COLUMN max_activity integer NOT NULL DEFAULT 2,    -- the ceilings that it read when it entered; the smallest count
    ADD COLUMN max_http integer NOT NULL DEFAULT 2,
    ADD COLUMN alone boolean NOT NULL DEFAULT false,       -- it has seen no other, and keeps the activity ceiling by itself
    ADD COLUMN hungry boolean NOT NULL DEFAULT false,      -- a ceiling kept it from claiming: others tell it when they free room
    ADD COLUMN hungry_for_http boolean NOT NULL DEFAULT false;

CREATE INDEX engines_hungry ON df.engines (id) WHERE hungry OR hungry_for_http;

ALTER TABLE df.scopes ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.releasing ENABLE ROW LEVEL SECURITY;
DO $$
DECLARE
    name text;
    me text := 'submitted_by = (SELECT quote_ident(current_user)::regrole)';
BEGIN
    FOREACH name IN ARRAY '{scopes,releasing}'::text[] LOOP
        EXECUTE format('CREATE POLICY own_and_shared ON df.%I FOR SELECT USING (%s OR submitted_by = ANY ((SELECT df.readable_owners())::oid[]))', name, me);
        EXECUTE format('CREATE POLICY own_insert ON df.%I FOR INSERT WITH CHECK (%s)', name, me);
        EXECUTE format('CREATE POLICY own_update ON df.%I FOR UPDATE USING (%s)', name, me);
        EXECUTE format('CREATE POLICY own_delete ON df.%I FOR DELETE USING (%s)', name, me);
    END LOOP;
    CREATE POLICY own_run ON df.scopes AS RESTRICTIVE FOR INSERT WITH CHECK (EXISTS (
        SELECT FROM df.instances i WHERE i.id = scopes.instance_id AND i.submitted_by = scopes.submitted_by));
END $$;
