-- For each partitioned table with shapes the partitions that it had when the shapes' rows were last in step with them: OID of
-- the partition → the transaction that made it one (pg_inherits.xmin). Rows that come or go with a partition are in no
-- replication stream, so a server that was down compares.
CREATE TABLE IF NOT EXISTS shapeserver.partitions (
    stream_id text NOT NULL REFERENCES shapeserver.streams ON DELETE CASCADE,
    root      oid NOT NULL,
    attached  jsonb NOT NULL,
    PRIMARY KEY (stream_id, root)
);

COMMENT ON SCHEMA shapeserver IS 'Catalogue of shapeserver: which shapes there are and which process owns them. No row data. Schema version 2';
