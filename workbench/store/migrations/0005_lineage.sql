-- Retries of failed runs, what is known of how runs differ, and indexes for failures and retention.

ALTER TABLE df.definitions
    ADD COLUMN kind text NOT NULL DEFAULT 'start'          -- how the run came to be: start, retry, resume
        CHECK (kind IN ('start', 'retry', 'resume')),
    ADD COLUMN settings jsonb;                             -- those that differed from their defaults at the start; null: not known

-- The oldest runs that nobody has restarted from: where retention begins to look.
CREATE INDEX instances_ended ON df.instances (submitted_by, finished_at)
    WHERE finished_at IS NOT NULL AND restart_of_run_id IS NULL;
CREATE INDEX instances_failed ON df.instances (submitted_by, finished_at) WHERE status = 'failed';
CREATE INDEX attempts_failed ON df.attempts (submitted_by, finished_at) WHERE outcome IN ('failed', 'worker_lost');

-- Its body is in functions/33_lineage.sql.
CREATE FUNCTION df.is_own_run(run_id text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN false; END $$;

-- A foreign run as the source would keep its owner's retention from deleting it. (A function, since a policy cannot query the
-- table that it is of. Roles may not update the column.)
CREATE POLICY own_source ON df.instances AS RESTRICTIVE FOR INSERT
    WITH CHECK (restart_of_run_id IS NULL OR df.is_own_run(restart_of_run_id));
