-- Which columns a shape uses and how their values read (shape.Definition.Description): a change of the table while no server runs is in no replication
-- stream, so the next server compares. NULL for a shape that was made before there was this column.
ALTER TABLE shapeserver.shapes ADD COLUMN IF NOT EXISTS description text;

COMMENT ON SCHEMA shapeserver IS 'Catalogue of shapeserver: which shapes there are and which process owns them. No row data. Schema version 3';
