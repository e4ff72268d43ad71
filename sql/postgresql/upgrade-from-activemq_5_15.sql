-- From the tables of activemq_5_15 to jdbcstore_3. Every row is kept. Stop all brokers and stores
-- first, and make a backup. jdbcstore migrate --sql prints what a certain database needs.
-- Written by: make sql

BEGIN;

CREATE TABLE "jdbcstore_version" (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT "jdbcstore_version_pkc" PRIMARY KEY (version_num)
);

INSERT INTO "jdbcstore_version" (version_num) VALUES ('activemq_5_0');

-- Running upgrade activemq_5_0 -> activemq_5_4

UPDATE "activemq_msgs" SET "priority"=0 WHERE "activemq_msgs"."priority" IS NULL;

UPDATE "activemq_acks" SET "priority"=0 WHERE "activemq_acks"."priority" = 5 AND NOT (EXISTS (SELECT 1
FROM (SELECT DISTINCT "activemq_acks"."container" AS "container", "activemq_acks"."client_id" AS "client_id", "activemq_acks"."sub_name" AS "sub_name"
FROM "activemq_acks"
WHERE "activemq_acks"."priority" != 5) AS others
WHERE others."container" = "activemq_acks"."container" AND others."client_id" = "activemq_acks"."client_id" AND others."sub_name" = "activemq_acks"."sub_name"));

UPDATE "jdbcstore_version" SET version_num='activemq_5_4' WHERE "jdbcstore_version".version_num = 'activemq_5_0';

-- Running upgrade activemq_5_4 -> activemq_5_7

UPDATE "jdbcstore_version" SET version_num='activemq_5_7' WHERE "jdbcstore_version".version_num = 'activemq_5_4';

-- Running upgrade activemq_5_7 -> activemq_5_15

UPDATE "jdbcstore_version" SET version_num='activemq_5_15' WHERE "jdbcstore_version".version_num = 'activemq_5_7';

-- Running upgrade activemq_5_15 -> activemq_5_15_11

CREATE INDEX "activemq_msgs_iidx" ON "activemq_msgs" ("id", "xid", "container");

UPDATE "jdbcstore_version" SET version_num='activemq_5_15_11' WHERE "jdbcstore_version".version_num = 'activemq_5_15';

-- Running upgrade activemq_5_15_11 -> jdbcstore_1

CREATE TABLE "jdbcstore_acks" (
    "container" VARCHAR(250) NOT NULL,
    "client_id" VARCHAR(250) NOT NULL,
    "sub_name" VARCHAR(250) NOT NULL,
    "id" BIGINT NOT NULL,
    "msgid_prod" VARCHAR(250),
    "msgid_seq" BIGINT,
    PRIMARY KEY ("container", "client_id", "sub_name", "id")
);

CREATE TABLE "jdbcstore_state" (
    "name" VARCHAR(250) NOT NULL,
    "number" BIGINT NOT NULL,
    PRIMARY KEY ("name")
);

INSERT INTO "jdbcstore_state" ("name", "number") VALUES ('sequence', 0);

UPDATE "jdbcstore_version" SET version_num='jdbcstore_1' WHERE "jdbcstore_version".version_num = 'activemq_5_15_11';

-- Running upgrade jdbcstore_1 -> jdbcstore_2

ALTER TABLE "jdbcstore_acks" ADD COLUMN "xid" VARCHAR(250);

CREATE INDEX "jdbcstore_acks_xidx" ON "jdbcstore_acks" ("xid");

UPDATE "jdbcstore_version" SET version_num='jdbcstore_2' WHERE "jdbcstore_version".version_num = 'jdbcstore_1';

-- Running upgrade jdbcstore_2 -> jdbcstore_3

UPDATE "jdbcstore_version" SET version_num='jdbcstore_3' WHERE "jdbcstore_version".version_num = 'jdbcstore_2';

COMMIT;
