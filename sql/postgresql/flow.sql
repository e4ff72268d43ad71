-- Limits, rates and pauses of queues, in addition to claims.sql.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_flow" (
    "container" VARCHAR(250) NOT NULL,
    "paused" BIGINT NOT NULL,
    "most" BIGINT,
    "rate" BIGINT,
    "burst" BIGINT,
    "drawn" BIGINT NOT NULL,
    PRIMARY KEY ("container")
);

INSERT INTO "jdbcstore_state" ("name", "number") VALUES ('flow', 0);

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_flow" TO jdbcstore;

COMMIT;
