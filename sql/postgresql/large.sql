-- Bodies that a broker keeps in pieces, in addition to create.sql.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_large" (
    "id" BIGINT NOT NULL,
    "msg_id" BIGINT NOT NULL,
    "touched" BIGINT NOT NULL,
    "begun" BIGINT NOT NULL,
    PRIMARY KEY ("id", "msg_id")
);

CREATE TABLE "jdbcstore_pieces" (
    "id" BIGINT NOT NULL,
    "piece" BIGINT NOT NULL,
    "data" BYTEA NOT NULL,
    PRIMARY KEY ("id", "piece")
);

CREATE INDEX "jdbcstore_large_midx" ON "jdbcstore_large" ("msg_id");

INSERT INTO "jdbcstore_state" ("name", "number") VALUES ('large', 0);

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_large" TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_pieces" TO jdbcstore;

COMMIT;
