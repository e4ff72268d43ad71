-- The table of removed messages, for stores with history_retention.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_history" (
    "removed" BIGINT NOT NULL,
    "id" BIGINT NOT NULL,
    "container" VARCHAR(250) NOT NULL,
    "msgid_prod" VARCHAR(250),
    "msgid_seq" BIGINT,
    "outcome" VARCHAR(250) NOT NULL,
    "produced" BIGINT,
    "jms_priority" BIGINT,
    "msg_size" BIGINT,
    "redeliveries" BIGINT,
    "reason" VARCHAR(250),
    PRIMARY KEY ("removed", "id")
);

GRANT SELECT, INSERT, DELETE ON "jdbcstore_history" TO jdbcstore;

COMMIT;
