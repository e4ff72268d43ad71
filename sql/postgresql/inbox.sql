-- Messages that consumers have processed, in the database of the application.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_inbox" (
    "consumer" VARCHAR(250) NOT NULL,
    "msgid" VARCHAR(250) NOT NULL,
    "processed" BIGINT NOT NULL,
    PRIMARY KEY ("consumer", "msgid")
);

CREATE INDEX "jdbcstore_inbox_pidx" ON "jdbcstore_inbox" ("consumer", "processed");

GRANT SELECT, INSERT, UPDATE, DELETE ON "jdbcstore_inbox" TO jdbcstore;

COMMIT;
