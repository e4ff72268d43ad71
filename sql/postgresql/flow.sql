-- Limits, rates and pauses of queues and keys, in addition to claims.sql.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_flow" (
    "container" VARCHAR(250) NOT NULL,
    "paused" BIGINT NOT NULL,
    "most" BIGINT,
    "rate" BIGINT,
    "burst" BIGINT,
    "drawn" BIGINT NOT NULL,
    "keying" BIGINT NOT NULL,
    "key_most" BIGINT,
    "key_rate" BIGINT,
    "key_burst" BIGINT,
    "last_key" VARCHAR(250),
    "credit" BIGINT NOT NULL,
    PRIMARY KEY ("container")
);

CREATE TABLE "jdbcstore_flow_keys" (
    "container" VARCHAR(250) NOT NULL,
    "name" VARCHAR(250) NOT NULL,
    "paused" BIGINT NOT NULL,
    "most" BIGINT,
    "weight" BIGINT NOT NULL,
    "rate" BIGINT,
    "burst" BIGINT,
    "drawn" BIGINT NOT NULL,
    PRIMARY KEY ("container", "name")
);

CREATE TABLE "jdbcstore_keyed" (
    "id" BIGINT NOT NULL,
    "container" VARCHAR(250) NOT NULL,
    "name" VARCHAR(250) NOT NULL,
    "lane" BIGINT NOT NULL,
    PRIMARY KEY ("id", "container")
);

CREATE INDEX "jdbcstore_keyed_nidx" ON "jdbcstore_keyed" ("container", "name", "lane", "id");

INSERT INTO "jdbcstore_state" ("name", "number") VALUES ('flow', 0);

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_flow" TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_flow_keys" TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_keyed" TO jdbcstore;

COMMIT;
