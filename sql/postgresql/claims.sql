-- What processes that claim messages share, in addition to create.sql.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_claims" (
    "id" BIGINT NOT NULL,
    "session" BIGINT,
    "due" BIGINT NOT NULL,
    "taken" BIGINT NOT NULL,
    "failed" BIGINT NOT NULL,
    PRIMARY KEY ("id")
);

CREATE TABLE "jdbcstore_claim_sessions" (
    "id" BIGINT NOT NULL,
    "name" VARCHAR(250) NOT NULL,
    "expires" BIGINT NOT NULL,
    PRIMARY KEY ("id")
);

CREATE INDEX "jdbcstore_claims_sidx" ON "jdbcstore_claims" ("session");

CREATE INDEX "activemq_msgs_qidx" ON "activemq_msgs" ("container", "priority", "id");

CREATE SEQUENCE "jdbcstore_claim_ids";

INSERT INTO "jdbcstore_state" ("name", "number") VALUES ('claims', 0);

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_claims" TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_claim_sessions" TO jdbcstore;

GRANT USAGE, SELECT, UPDATE ON SEQUENCE "jdbcstore_claim_ids" TO jdbcstore;

COMMIT;
