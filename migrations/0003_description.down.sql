ALTER TABLE IF EXISTS shapeserver.shapes DROP COLUMN IF EXISTS description;

COMMENT ON SCHEMA shapeserver IS 'Catalogue of shapeserver: which shapes there are and which process owns them. No row data. Schema version 2';
