-- What control flow and waiting need: iterations of loops, signals, names by branch.

ALTER TABLE df.nodes
    ADD COLUMN iteration integer NOT NULL DEFAULT 0,       -- of a LOOP: the one under way, from 1
    ADD COLUMN abandoned integer NOT NULL DEFAULT 0,       -- of a LOOP: iterations given up in a row
    ADD COLUMN falsy boolean NOT NULL DEFAULT false;       -- below a condition: how its value is judged

-- The branch of a JOIN or RACE that gave the name, by the number of the branch's root; 0 is the run's own map.
ALTER TABLE df.values ALTER COLUMN scope DROP DEFAULT;
ALTER TABLE df.values ALTER COLUMN scope TYPE integer USING 0;
ALTER TABLE df.values ALTER COLUMN scope SET DEFAULT 0;

-- Signals that no wait has taken yet. No foreign key: steps may signal each other's runs freely.
CREATE TABLE df.signals (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance_id text NOT NULL,
    name text NOT NULL,
    submitted_by regrole NOT NULL,                         -- whose run it is
    sent_by regrole NOT NULL,
    sent_at timestamptz NOT NULL,
    data jsonb NOT NULL,
    is_new boolean NOT NULL DEFAULT true                   -- no engine has looked at it
);

CREATE INDEX signals_new ON df.signals (submitted_by, instance_id) WHERE is_new;
CREATE INDEX signals_unread ON df.signals (instance_id, name, id);

-- The last iterations of each loop, a fixed ring; the one under way is in the loop's own node row.
CREATE TABLE df.iterations (
    instance_id text NOT NULL REFERENCES df.instances (id) ON DELETE CASCADE,
    node_id integer NOT NULL,                              -- the LOOP
    slot integer NOT NULL,                                 -- iteration modulo 100
    submitted_by regrole NOT NULL,
    iteration integer NOT NULL,
    first_rev bigint NOT NULL,                             -- the run's version when it began and when it ended
    last_rev bigint NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    error jsonb,                                           -- why it was abandoned
    PRIMARY KEY (instance_id, node_id, slot)
) WITH (fillfactor = 70);

ALTER TABLE df.signals ENABLE ROW LEVEL SECURITY;
ALTER TABLE df.iterations ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON df.signals USING (submitted_by = (SELECT quote_ident(current_user)::regrole));
CREATE POLICY own ON df.iterations USING (submitted_by = (SELECT quote_ident(current_user)::regrole));
