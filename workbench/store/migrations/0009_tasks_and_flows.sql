-- Steps for workers that are no engines, and flows that are defined in SQL.

-- A step that waits for such a worker, or that one has claimed. The row goes when an engine has read the report, when the lease has
-- passed, or when the step is cancelled.
CREATE TABLE df.tasks (
    instance_id text NOT NULL REFERENCES df.instances (id) ON DELETE CASCADE,
    node_id integer NOT NULL,
    submitted_by regrole NOT NULL,
    handler text NOT NULL,
    input jsonb NOT NULL,
    offered_at timestamptz NOT NULL,
    token uuid UNIQUE,                                     -- of the claim, as in df.nodes
    lease_until timestamptz,                               -- until then the worker counts as alive
    report jsonb,                                          -- {"output": …} or {"error": …, "delay": seconds}
    PRIMARY KEY (instance_id, node_id)
);

CREATE INDEX tasks_open ON df.tasks (submitted_by, offered_at) WHERE token IS NULL;
CREATE INDEX tasks_leased ON df.tasks (lease_until) WHERE token IS NOT NULL AND report IS NULL;
CREATE INDEX tasks_reported ON df.tasks (submitted_by) WHERE report IS NOT NULL;

-- Every version of a flow that a run was started with, and the newest, which may still change.
CREATE TABLE df.flows (
    owner regrole NOT NULL DEFAULT quote_ident(current_user)::regrole,
    slug text NOT NULL,
    version integer NOT NULL,
    graph json NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,                                -- when it was first started: it does not change any more
    PRIMARY KEY (owner, slug, version)
);

ALTER TABLE df.definitions
    ADD COLUMN flow text,                                  -- of a run that is a flow as a whole: its slug
    ADD COLUMN flow_version integer;

CREATE INDEX definitions_flow ON df.definitions (submitted_by, flow, flow_version) WHERE flow IS NOT NULL;

ALTER TABLE df.tasks ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.flows ENABLE ROW LEVEL SECURITY;
DO $$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT t.name, t.owner || ' = (SELECT quote_ident(current_user)::regrole)' AS mine, t.owner
                FROM (VALUES ('tasks', 'submitted_by'), ('flows', 'owner')) AS t (name, owner) LOOP
        EXECUTE format('CREATE POLICY own_and_shared ON df.%I FOR SELECT USING (%s OR %I = ANY ((SELECT df.readable_owners())::oid[]))',
                       item.name, item.mine, item.owner);
        EXECUTE format('CREATE POLICY own_insert ON df.%I FOR INSERT WITH CHECK (%s)', item.name, item.mine);
        EXECUTE format('CREATE POLICY own_update ON df.%I FOR UPDATE USING (%s)', item.name, item.mine);
        EXECUTE format('CREATE POLICY own_delete ON df.%I FOR DELETE USING (%s)', item.name, item.mine);
    END LOOP;
    CREATE POLICY own_run ON df.tasks AS RESTRICTIVE FOR INSERT WITH CHECK (EXISTS (
        SELECT FROM df.instances i WHERE i.id = tasks.instance_id AND i.submitted_by = tasks.submitted_by));
END $$;
