-- Makes room for prioritised durable subscriptions in activemq_acks, where a store's user may not.
-- Do this once, on tables that create.sql or an ActiveMQ made.
-- Written by: make sql

BEGIN;

ALTER TABLE "activemq_acks" DROP CONSTRAINT pk_activemq_acks, ADD PRIMARY KEY ("container", "client_id", "sub_name", "priority");

COMMIT;
