-- What an attempt executed, in which iterations; nearer retry policies than the run's.

ALTER TABLE df.attempts
    ADD COLUMN executed text,                              -- the substituted statement, the request, the input; null: as in the graph
    ADD COLUMN iterations integer[];                       -- of the loops around the node, the outermost first

ALTER TABLE df.nodes ADD COLUMN max_attempts integer;      -- of a leaf below a `retry`; null: the run's
