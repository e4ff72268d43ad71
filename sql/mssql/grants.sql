-- What the user needs as whom stores and brokers run: put yours in for jdbcstore.
-- The user must be there, and the tables.
-- Before, what jdbcstore_owner needs, who creates and migrates the tables.
-- Written by: make sql

GRANT CREATE TABLE TO jdbcstore_owner;
GO

GRANT ALTER, SELECT, INSERT, UPDATE, DELETE ON SCHEMA::dbo TO jdbcstore_owner;
GO

GRANT SELECT, INSERT, UPDATE, DELETE ON [ACTIVEMQ_MSGS] TO jdbcstore;
GO

GRANT SELECT, INSERT, UPDATE, DELETE ON [ACTIVEMQ_ACKS] TO jdbcstore;
GO

GRANT SELECT, INSERT, UPDATE, DELETE ON [ACTIVEMQ_LOCK] TO jdbcstore;
GO

GRANT SELECT, INSERT, UPDATE, DELETE ON [JDBCSTORE_ACKS] TO jdbcstore;
GO

GRANT SELECT, INSERT, UPDATE, DELETE ON [JDBCSTORE_STATE] TO jdbcstore;
GO

GRANT SELECT ON [JDBCSTORE_VERSION] TO jdbcstore;
GO
