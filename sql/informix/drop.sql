-- Drops all tables, WITH ALL MESSAGES IN THEM.
-- Written by: make sql

DROP TABLE jdbcstore_version;

DROP TABLE jdbcstore_state;

DROP TABLE jdbcstore_acks;

DROP TABLE activemq_lock;

DROP TABLE activemq_acks;

DROP TABLE activemq_msgs;
