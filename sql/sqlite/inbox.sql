-- Messages that consumers have processed, in the database of the application.
-- Written by: make sql

BEGIN;

CREATE TABLE "JDBCSTORE_INBOX" (
    "CONSUMER" VARCHAR(250) NOT NULL,
    "MSGID" VARCHAR(250) NOT NULL,
    "PROCESSED" BIGINT NOT NULL,
    PRIMARY KEY ("CONSUMER", "MSGID")
);

CREATE INDEX "JDBCSTORE_INBOX_PIDX" ON "JDBCSTORE_INBOX" ("CONSUMER", "PROCESSED");

COMMIT;
