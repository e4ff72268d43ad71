-- Drops all tables, WITH ALL MESSAGES IN THEM.
-- But jdbcstore_history, jdbcstore_large, jdbcstore_pieces: drop that before, if a store has created it.
-- Written by: make sql

DROP TABLE jdbcstore_version;

DROP TABLE jdbcstore_state;

DROP TABLE jdbcstore_acks;

DROP TABLE activemq_lock;

DROP TABLE activemq_acks;

DROP TABLE activemq_msgs;
