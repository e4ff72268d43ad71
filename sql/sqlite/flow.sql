-- Limits, rates and pauses of queues, in addition to claims.sql.
-- Written by: make sql

BEGIN;

CREATE TABLE "JDBCSTORE_FLOW" (
    "CONTAINER" VARCHAR(250) NOT NULL,
    "PAUSED" BIGINT NOT NULL,
    "MOST" BIGINT,
    "RATE" BIGINT,
    "BURST" BIGINT,
    "DRAWN" BIGINT NOT NULL,
    PRIMARY KEY ("CONTAINER")
);

INSERT INTO "JDBCSTORE_STATE" ("NAME", "NUMBER") VALUES ('flow', 0);

COMMIT;
