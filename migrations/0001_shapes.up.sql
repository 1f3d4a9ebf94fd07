DO $$
BEGIN
    -- Not CREATE SCHEMA IF NOT EXISTS, which needs the right to create schemas even when there is nothing to do.
    IF to_regnamespace('shapeserver') IS NULL THEN
        CREATE SCHEMA shapeserver;
    END IF;
END
$$;

-- One row for each replication stream (setting SHAPESERVER_REPLICATION_STREAM_ID).
CREATE TABLE IF NOT EXISTS shapeserver.streams (
    stream_id         text PRIMARY KEY,
    -- Counts the processes that took the stream over. Writes of an earlier epoch are refused.
    epoch             bigint NOT NULL,
    owner             text NOT NULL,
    claimed_at        timestamptz NOT NULL DEFAULT now(),
    -- The history that the shapes belong to (IDENTIFY_SYSTEM).
    system_identifier text NOT NULL,
    timeline          integer NOT NULL
);

-- One row for each shape. The log of a shape is in the storage directory of the server that owns the stream.
CREATE TABLE IF NOT EXISTS shapeserver.shapes (
    handle                text PRIMARY KEY,
    stream_id             text NOT NULL REFERENCES shapeserver.streams ON DELETE CASCADE,
    -- The text that is the same for two requests exactly when they mean the same shape, and a hash of it.
    identity              text NOT NULL,
    identity_hash         bigint NOT NULL,
    table_oid             oid NOT NULL,
    table_schema          text NOT NULL,
    table_name            text NOT NULL,
    columns               text[] NOT NULL,
    columns_explicit      boolean NOT NULL,
    where_sql             text,
    replica               text NOT NULL,
    log_mode              text NOT NULL,
    state                 text NOT NULL CHECK (state IN ('creating', 'active')),
    owner                 text NOT NULL,
    epoch                 bigint NOT NULL,
    created_at            timestamptz NOT NULL,
    snapshot_completed_at timestamptz,
    last_used_at          timestamptz NOT NULL
);

CREATE INDEX IF NOT EXISTS shapes_stream_id_idx ON shapeserver.shapes (stream_id, identity_hash);
CREATE INDEX IF NOT EXISTS shapes_table_oid_idx ON shapeserver.shapes (table_oid);

-- The server reads the version here: see doc.go.
COMMENT ON SCHEMA shapeserver IS 'Catalogue of shapeserver: which shapes there are and which process owns them. No row data. Schema version 1';
