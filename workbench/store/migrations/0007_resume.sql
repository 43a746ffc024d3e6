-- Leaves whose results are those of the run that this one resumes.

ALTER TABLE df.nodes
    ADD COLUMN reused_run text,                            -- whose node it was that succeeded; null: executed here
    ADD COLUMN reused_node integer;
