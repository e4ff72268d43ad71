-- Messages that SQL statements insert for a broker or processes that claim, in addition to
-- inbox.sql. Programs that send need the right to INSERT.
-- Written by: make sql

BEGIN;

CREATE TABLE "JDBCSTORE_OUTBOX" (
    "ID" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "DESTINATION" VARCHAR(250) NOT NULL,
    "BODY" TEXT,
    "BODY_BYTES" BLOB,
    "BODY_TYPE" VARCHAR(250),
    "PROPERTIES" TEXT,
    "PRIORITY" BIGINT,
    "PERSISTENT" BIGINT,
    "DELAY" BIGINT,
    "EXPIRES" BIGINT,
    "CORRELATION_ID" VARCHAR(250),
    "REPLY_TO" VARCHAR(250),
    "JMS_TYPE" VARCHAR(250),
    "GROUP_ID" VARCHAR(250),
    "SEND_ID" VARCHAR(250),
    "CREATED" BIGINT DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    "ERROR" VARCHAR(250)
);

COMMIT;
