-- Queues, exchanges and bindings of Celery and kombu, in addition to claims.sql.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_queues" (
    "name" VARCHAR(250) NOT NULL,
    "message_ttl" BIGINT,
    "expires" BIGINT,
    "unused_until" BIGINT,
    PRIMARY KEY ("name")
);

CREATE TABLE "jdbcstore_exchanges" (
    "name" VARCHAR(250) NOT NULL,
    "kind" VARCHAR(250) NOT NULL,
    PRIMARY KEY ("name")
);

CREATE TABLE "jdbcstore_bindings" (
    "exchange" VARCHAR(250) NOT NULL,
    "queue" VARCHAR(250) NOT NULL,
    "routing_key" VARCHAR(250) NOT NULL,
    PRIMARY KEY ("exchange", "queue", "routing_key")
);

CREATE INDEX "jdbcstore_bindings_qidx" ON "jdbcstore_bindings" ("queue");

INSERT INTO "jdbcstore_state" ("name", "number") VALUES ('routing', 0);

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_queues" TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_exchanges" TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_bindings" TO jdbcstore;

COMMIT;
