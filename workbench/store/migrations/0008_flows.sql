-- What FLOW and MAP need: the elements of a MAP are nodes, numbered behind those of the graph.

ALTER TABLE df.nodes
    ADD COLUMN base integer,                               -- of a MAP: the number of its first element's root
    ADD COLUMN size integer,                               -- of a MAP: how many elements; of a step that one goes over: of its value
    ADD COLUMN facts numeric,                              -- of a FLOW's step: bits, what those that depend on it ask of its value
    ADD COLUMN pattern integer,                            -- of an element: the node of the graph that it is like
    ADD COLUMN element integer[],                          -- of an element: its index, from 0, after those of the MAPs around its own
    ADD COLUMN progress jsonb;                             -- what a running handler says of itself: fraction, note, at

ALTER TABLE df.attempts
    ADD COLUMN pattern integer,
    ADD COLUMN element integer[];
