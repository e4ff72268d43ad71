-- From the tables of activemq_5_15 to jdbcstore_3. Every row is kept. Stop all brokers and stores
-- first, and make a backup. jdbcstore migrate --sql prints what a certain database needs.
-- Written by: make sql

CREATE TABLE `JDBCSTORE_VERSION` (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT `JDBCSTORE_VERSION_pkc` PRIMARY KEY (version_num)
)ENGINE=InnoDB;

INSERT INTO `JDBCSTORE_VERSION` (version_num) VALUES ('activemq_5_0');

-- Running upgrade activemq_5_0 -> activemq_5_4

UPDATE `ACTIVEMQ_MSGS` SET `PRIORITY`=0 WHERE `ACTIVEMQ_MSGS`.`PRIORITY` IS NULL;

UPDATE `ACTIVEMQ_ACKS` SET `PRIORITY`=0 WHERE `ACTIVEMQ_ACKS`.`PRIORITY` = 5 AND NOT (EXISTS (SELECT 1
FROM (SELECT DISTINCT `ACTIVEMQ_ACKS`.`CONTAINER` AS `CONTAINER`, `ACTIVEMQ_ACKS`.`CLIENT_ID` AS `CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME` AS `SUB_NAME`
FROM `ACTIVEMQ_ACKS`
WHERE `ACTIVEMQ_ACKS`.`PRIORITY` != 5) AS `others`
WHERE `others`.`CONTAINER` = `ACTIVEMQ_ACKS`.`CONTAINER` AND `others`.`CLIENT_ID` = `ACTIVEMQ_ACKS`.`CLIENT_ID` AND `others`.`SUB_NAME` = `ACTIVEMQ_ACKS`.`SUB_NAME`));

UPDATE `JDBCSTORE_VERSION` SET version_num='activemq_5_4' WHERE `JDBCSTORE_VERSION`.version_num = 'activemq_5_0';

-- Running upgrade activemq_5_4 -> activemq_5_7

UPDATE `JDBCSTORE_VERSION` SET version_num='activemq_5_7' WHERE `JDBCSTORE_VERSION`.version_num = 'activemq_5_4';

-- Running upgrade activemq_5_7 -> activemq_5_15

ALTER TABLE `ACTIVEMQ_MSGS` MODIFY `MSG` LONGBLOB NULL;

UPDATE `JDBCSTORE_VERSION` SET version_num='activemq_5_15' WHERE `JDBCSTORE_VERSION`.version_num = 'activemq_5_7';

-- Running upgrade activemq_5_15 -> activemq_5_15_11

CREATE INDEX `ACTIVEMQ_MSGS_IIDX` ON `ACTIVEMQ_MSGS` (`ID`, `XID`, `CONTAINER`);

UPDATE `JDBCSTORE_VERSION` SET version_num='activemq_5_15_11' WHERE `JDBCSTORE_VERSION`.version_num = 'activemq_5_15';

-- Running upgrade activemq_5_15_11 -> jdbcstore_1

CREATE TABLE `JDBCSTORE_ACKS` (
    `CONTAINER` VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `CLIENT_ID` VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `SUB_NAME` VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    `ID` BIGINT NOT NULL,
    `MSGID_PROD` VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    `MSGID_SEQ` BIGINT,
    PRIMARY KEY (`CONTAINER`, `CLIENT_ID`, `SUB_NAME`, `ID`)
)ENGINE=InnoDB;

CREATE TABLE `JDBCSTORE_STATE` (
    `NAME` VARCHAR(250) NOT NULL,
    `NUMBER` BIGINT NOT NULL,
    PRIMARY KEY (`NAME`)
)ENGINE=InnoDB;

INSERT INTO `JDBCSTORE_STATE` (`NAME`, `NUMBER`) VALUES ('sequence', 0);

UPDATE `JDBCSTORE_VERSION` SET version_num='jdbcstore_1' WHERE `JDBCSTORE_VERSION`.version_num = 'activemq_5_15_11';

-- Running upgrade jdbcstore_1 -> jdbcstore_2

ALTER TABLE `JDBCSTORE_ACKS` ADD COLUMN `XID` VARCHAR(250);

CREATE INDEX `JDBCSTORE_ACKS_XIDX` ON `JDBCSTORE_ACKS` (`XID`);

UPDATE `JDBCSTORE_VERSION` SET version_num='jdbcstore_2' WHERE `JDBCSTORE_VERSION`.version_num = 'jdbcstore_1';

-- Running upgrade jdbcstore_2 -> jdbcstore_3

UPDATE `JDBCSTORE_VERSION` SET version_num='jdbcstore_3' WHERE `JDBCSTORE_VERSION`.version_num = 'jdbcstore_2';
