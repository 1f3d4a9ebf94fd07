DROP TABLE IF EXISTS shapeserver.shapes;
DROP TABLE IF EXISTS shapeserver.streams;
DROP SCHEMA IF EXISTS shapeserver;
