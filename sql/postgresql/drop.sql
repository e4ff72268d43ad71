-- Drops all tables, WITH ALL MESSAGES IN THEM.
-- Written by: make sql

BEGIN;

DROP TABLE IF EXISTS "jdbcstore_history";

DROP TABLE IF EXISTS "jdbcstore_large";

DROP TABLE IF EXISTS "jdbcstore_pieces";

DROP TABLE IF EXISTS "jdbcstore_outbox";

DROP TABLE IF EXISTS "jdbcstore_inbox";

DROP TABLE IF EXISTS "jdbcstore_queues";

DROP TABLE IF EXISTS "jdbcstore_exchanges";

DROP TABLE IF EXISTS "jdbcstore_bindings";

DROP TABLE IF EXISTS "jdbcstore_flow";

DROP TABLE IF EXISTS "jdbcstore_flow_keys";

DROP TABLE IF EXISTS "jdbcstore_keyed";

DROP TABLE IF EXISTS "jdbcstore_claims";

DROP TABLE IF EXISTS "jdbcstore_claim_sessions";

DROP SEQUENCE IF EXISTS "jdbcstore_claim_ids";

DROP FUNCTION IF EXISTS "jdbcstore_outbox_wake"();

DROP TABLE "jdbcstore_version";

DROP TABLE "jdbcstore_state";

DROP TABLE "jdbcstore_acks";

DROP TABLE "activemq_lock";

DROP TABLE "activemq_acks";

DROP TABLE "activemq_msgs";

COMMIT;
