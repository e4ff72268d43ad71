-- What the user needs as whom stores and brokers run: put yours in for jdbcstore.
-- The user must be there, and the tables.
-- Written by: make sql

GRANT SELECT, INSERT, UPDATE, DELETE ON ACTIVEMQ_MSGS TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON ACTIVEMQ_ACKS TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON ACTIVEMQ_LOCK TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON JDBCSTORE_ACKS TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON JDBCSTORE_STATE TO jdbcstore;

GRANT SELECT ON JDBCSTORE_VERSION TO jdbcstore;
