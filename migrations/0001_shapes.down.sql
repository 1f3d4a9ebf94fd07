-- The schema goes only when nothing else is in it. Where the version table has to be in it (see doc.go), that stays, and
-- with it the schema, whose comment then says that it is at version 0.
DROP TABLE IF EXISTS shapeserver.shapes;
DROP TABLE IF EXISTS shapeserver.streams;
DO $$
BEGIN
    IF to_regclass('shapeserver.shapeserver_schema_migrations') IS NOT NULL THEN
        COMMENT ON SCHEMA shapeserver IS 'Schema version 0';
    ELSE
        DROP SCHEMA IF EXISTS shapeserver;
    END IF;
END
$$;
