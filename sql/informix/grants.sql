-- What the user needs as whom stores and brokers run: put yours in for jdbcstore.
-- The user must be there, and the tables.
-- Written by: make sql

GRANT SELECT, INSERT, UPDATE, DELETE ON activemq_msgs TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON activemq_acks TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON activemq_lock TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON jdbcstore_acks TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON jdbcstore_state TO jdbcstore;

GRANT SELECT ON jdbcstore_version TO jdbcstore;
