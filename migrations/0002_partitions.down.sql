DROP TABLE IF EXISTS shapeserver.partitions;
COMMENT ON SCHEMA shapeserver IS 'Catalogue of shapeserver: which shapes there are and which process owns them. No row data. Schema version 1';
