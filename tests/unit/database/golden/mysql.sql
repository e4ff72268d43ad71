-- mysql: made by python -m tests.unit.database.golden, not to be edited
-- The tables: sql/mysql/create.sql

-- add_acknowledged(client_id, sub_name, id_, container, container, container, container, client_id, client_id, sub_name, sub_name)
INSERT INTO `JDBCSTORE_ACKS` (`CONTAINER`, `CLIENT_ID`, `SUB_NAME`, `ID`, `MSGID_PROD`, `MSGID_SEQ`) SELECT `ACTIVEMQ_MSGS`.`CONTAINER`, %s AS anon_1, %s AS anon_2, `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSGID_PROD`, `ACTIVEMQ_MSGS`.`MSGID_SEQ`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`ID` = %s AND `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND coalesce((SELECT `JDBCSTORE_ACKS`.`ID`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s), -1) != `ACTIVEMQ_MSGS`.`ID`;

-- add_message(id, container, msgid_prod, msgid_seq, expiration, msg, priority, xid)
INSERT INTO `ACTIVEMQ_MSGS` (`ID`, `CONTAINER`, `MSGID_PROD`, `MSGID_SEQ`, `EXPIRATION`, `MSG`, `PRIORITY`, `XID`) VALUES (%s, %s, %s, %s, %s, %s, %s, %s);

-- add_number(name, number)
INSERT INTO `JDBCSTORE_STATE` (`NAME`, `NUMBER`) VALUES (%s, %s);

-- create_durable_sub(container, sub_dest, client_id, sub_name, selector, last_acked_id, priority, xid)
INSERT INTO `ACTIVEMQ_ACKS` (`CONTAINER`, `SUB_DEST`, `CLIENT_ID`, `SUB_NAME`, `SELECTOR`, `LAST_ACKED_ID`, `PRIORITY`, `XID`) VALUES (%s, %s, %s, %s, %s, %s, %s, %s);

-- delete_destination_subscriptions(container, container)
DELETE FROM `ACTIVEMQ_ACKS` WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s;

-- delete_subscription(container, container, client_id, client_id, sub_name, sub_name)
DELETE FROM `ACTIVEMQ_ACKS` WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND (convert(`ACTIVEMQ_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s AND (convert(`ACTIVEMQ_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s;

-- destination_message_count(container, container)
SELECT count(*) AS count_1
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL;

-- destination_statistics(container, container)
SELECT count(*) AS count_1, coalesce(sum(length(`ACTIVEMQ_MSGS`.`MSG`)), 0) AS coalesce_1
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL;

-- durable_subscriber_message_count(container, container, after, container, container, client_id, client_id, sub_name, sub_name)
SELECT count(*) AS count_1
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce((SELECT `JDBCSTORE_ACKS`.`ID`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s), -1) != `ACTIVEMQ_MSGS`.`ID`;

-- durable_subscriber_message_count(container, container, after), of a store opened to read ActiveMQ's tables alone
SELECT count(*) AS count_1
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(NULL, -1) != `ACTIVEMQ_MSGS`.`ID`;

-- durable_subscriber_message_count_with_priority(container, container, client_id, client_id, sub_name, sub_name, container, container, container, container, client_id, client_id, sub_name, sub_name)
SELECT count(*) AS count_1
FROM `ACTIVEMQ_MSGS` INNER JOIN `ACTIVEMQ_ACKS` ON `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND (convert(`ACTIVEMQ_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s AND (convert(`ACTIVEMQ_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` = coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) AND coalesce(`ACTIVEMQ_ACKS`.`LAST_ACKED_ID`, 0) < `ACTIVEMQ_MSGS`.`ID`
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND coalesce((SELECT `JDBCSTORE_ACKS`.`ID`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s), -1) != `ACTIVEMQ_MSGS`.`ID`;

-- durable_subscriber_message_count_with_priority(container, container, client_id, client_id, sub_name, sub_name, container, container), of a store opened to read ActiveMQ's tables alone
SELECT count(*) AS count_1
FROM `ACTIVEMQ_MSGS` INNER JOIN `ACTIVEMQ_ACKS` ON `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND (convert(`ACTIVEMQ_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s AND (convert(`ACTIVEMQ_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` = coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) AND coalesce(`ACTIVEMQ_ACKS`.`LAST_ACKED_ID`, 0) < `ACTIVEMQ_MSGS`.`ID`
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND coalesce(NULL, -1) != `ACTIVEMQ_MSGS`.`ID`;

-- find_acknowledged(container, container, container, container, container, container, client_id, client_id, sub_name, sub_name, after, limit)
SELECT `JDBCSTORE_ACKS`.`ID`, `ACTIVEMQ_MSGS`.`ID` AS `ID_1`, CASE WHEN (`ACTIVEMQ_MSGS`.`ID` IS NOT NULL AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND NOT (EXISTS (SELECT 1
FROM `ACTIVEMQ_ACKS`
WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND (`ACTIVEMQ_ACKS`.`PRIORITY` = coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) OR NOT (EXISTS (SELECT 1
FROM `ACTIVEMQ_ACKS` AS other
WHERE other.`CONTAINER` = %s AND (convert(other.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND other.`CLIENT_ID` = `ACTIVEMQ_ACKS`.`CLIENT_ID` AND other.`SUB_NAME` = `ACTIVEMQ_ACKS`.`SUB_NAME` AND other.`PRIORITY` != `ACTIVEMQ_ACKS`.`PRIORITY`))) AND coalesce(`ACTIVEMQ_ACKS`.`LAST_ACKED_ID`, 0) < `ACTIVEMQ_MSGS`.`ID` AND NOT (EXISTS (SELECT 1
FROM `JDBCSTORE_ACKS` AS by_others
WHERE by_others.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND by_others.`ID` = `ACTIVEMQ_MSGS`.`ID` AND by_others.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND by_others.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND by_others.`XID` IS NULL AND by_others.`CLIENT_ID` = `ACTIVEMQ_ACKS`.`CLIENT_ID` AND by_others.`SUB_NAME` = `ACTIVEMQ_ACKS`.`SUB_NAME`))))) THEN 1 ELSE 0 END AS anon_1
FROM `JDBCSTORE_ACKS` LEFT OUTER JOIN `ACTIVEMQ_MSGS` ON `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`ID` > %s ORDER BY `JDBCSTORE_ACKS`.`ID`
 LIMIT %s;

-- find_acknowledged_in_doubt(container, container)
SELECT DISTINCT `JDBCSTORE_ACKS`.`ID`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`XID` > ' ';

-- find_all_destinations()
SELECT convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin AS anon_1
FROM `ACTIVEMQ_MSGS` UNION SELECT convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin AS anon_2
FROM `ACTIVEMQ_ACKS`;

-- find_all_durable_subs(container, container)
SELECT `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`, `ACTIVEMQ_ACKS`.`LAST_ACKED_ID`, `ACTIVEMQ_ACKS`.`SELECTOR`, `ACTIVEMQ_ACKS`.`SUB_DEST`
FROM `ACTIVEMQ_ACKS`
WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` BETWEEN 0 AND 9 ORDER BY `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`;

-- find_all_marks(container, container)
SELECT `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`, `ACTIVEMQ_ACKS`.`LAST_ACKED_ID`, `ACTIVEMQ_ACKS`.`SELECTOR`, `ACTIVEMQ_ACKS`.`SUB_DEST`
FROM `ACTIVEMQ_ACKS`
WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` BETWEEN 0 AND 9 ORDER BY `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`;

-- find_all_message_ids(limit)
SELECT `ACTIVEMQ_MSGS`.`MSGID_PROD`, `ACTIVEMQ_MSGS`.`MSGID_SEQ`
FROM `ACTIVEMQ_MSGS` ORDER BY `ACTIVEMQ_MSGS`.`ID` DESC
 LIMIT %s;

-- find_durable_sub(container, container, client_id, client_id, sub_name, sub_name)
SELECT `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`, `ACTIVEMQ_ACKS`.`LAST_ACKED_ID`, `ACTIVEMQ_ACKS`.`SELECTOR`, `ACTIVEMQ_ACKS`.`SUB_DEST`
FROM `ACTIVEMQ_ACKS`
WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND (convert(`ACTIVEMQ_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s AND (convert(`ACTIVEMQ_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` BETWEEN 0 AND 9 ORDER BY `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`;

-- find_durable_sub_messages(container, container, after, container, container, client_id, client_id, sub_name, sub_name, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce((SELECT `JDBCSTORE_ACKS`.`ID`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s), -1) != `ACTIVEMQ_MSGS`.`ID` ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_durable_sub_messages(container, container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(NULL, -1) != `ACTIVEMQ_MSGS`.`ID` ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_durable_sub_messages_by_priority.lowest(container, container, after, container, container, client_id, client_id, sub_name, sub_name, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce((SELECT `JDBCSTORE_ACKS`.`ID`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s), -1) != `ACTIVEMQ_MSGS`.`ID` AND coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) < 1 ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_durable_sub_messages_by_priority.lowest(container, container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(NULL, -1) != `ACTIVEMQ_MSGS`.`ID` AND coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) < 1 ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_durable_sub_messages_by_priority.other(container, container, after, container, container, client_id, client_id, sub_name, sub_name, priority, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_PIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce((SELECT `JDBCSTORE_ACKS`.`ID`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s), -1) != `ACTIVEMQ_MSGS`.`ID` AND `ACTIVEMQ_MSGS`.`PRIORITY` = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_durable_sub_messages_by_priority.other(container, container, after, priority, limit), of a store opened to read ActiveMQ's tables alone
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_PIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(NULL, -1) != `ACTIVEMQ_MSGS`.`ID` AND `ACTIVEMQ_MSGS`.`PRIORITY` = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_expired_ids(container, container, after, now_ms, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_EIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND `ACTIVEMQ_MSGS`.`EXPIRATION` > 0 AND `ACTIVEMQ_MSGS`.`EXPIRATION` < %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_expired_messages(container, container, after, now_ms, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_EIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND `ACTIVEMQ_MSGS`.`EXPIRATION` > 0 AND `ACTIVEMQ_MSGS`.`EXPIRATION` < %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_id_owner(id_)
SELECT `ACTIVEMQ_MSGS`.`MSGID_PROD`, `ACTIVEMQ_MSGS`.`MSGID_SEQ`, `ACTIVEMQ_MSGS`.`CONTAINER`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`ID` = %s;

-- find_ids(container, container, after, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_ids_by_name(msgid_prod, msgid_prod, msgid_seq)
SELECT `ACTIVEMQ_MSGS`.`ID`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`MSGID_PROD` = %s AND (convert(`ACTIVEMQ_MSGS`.`MSGID_PROD` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`MSGID_SEQ` = %s;

-- find_ids_by_priority.lowest(container, container, after, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) < 1 ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_ids_by_priority.other(container, container, after, priority, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_PIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND `ACTIVEMQ_MSGS`.`PRIORITY` = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_in_doubt_messages(container, container, after, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NOT NULL AND `ACTIVEMQ_MSGS`.`ID` > %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_journal(param_1, param_2, param_3, param_4, param_5, param_6)
SELECT `JDBCSTORE_STATE`.`NAME`, `JDBCSTORE_STATE`.`NUMBER`
FROM `JDBCSTORE_STATE`
WHERE `JDBCSTORE_STATE`.`NAME` IN (%s, %s, %s, %s, %s, %s);

-- find_last_sequence_id_in_acks()
SELECT max(`ACTIVEMQ_ACKS`.`LAST_ACKED_ID`) AS max_1
FROM `ACTIVEMQ_ACKS`;

-- find_last_sequence_id_in_msgs()
SELECT max(`ACTIVEMQ_MSGS`.`ID`) AS max_1
FROM `ACTIVEMQ_MSGS`;

-- find_lock()
SELECT `ACTIVEMQ_LOCK`.`ID`, `ACTIVEMQ_LOCK`.`TIME`, `ACTIVEMQ_LOCK`.`BROKER_NAME`
FROM `ACTIVEMQ_LOCK`;

-- find_marks(container, container, client_id, client_id, sub_name, sub_name)
SELECT `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`, `ACTIVEMQ_ACKS`.`LAST_ACKED_ID`, `ACTIVEMQ_ACKS`.`SELECTOR`, `ACTIVEMQ_ACKS`.`SUB_DEST`
FROM `ACTIVEMQ_ACKS`
WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND (convert(`ACTIVEMQ_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s AND (convert(`ACTIVEMQ_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` BETWEEN 0 AND 9 ORDER BY `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`, `ACTIVEMQ_ACKS`.`PRIORITY`;

-- find_message_by_id(id_, container, container)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`ID` = %s AND `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL;

-- find_message_sequence_id(msgid_prod, msgid_prod, msgid_seq, container, container)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`PRIORITY`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`MSGID_PROD` = %s AND (convert(`ACTIVEMQ_MSGS`.`MSGID_PROD` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`MSGID_SEQ` = %s AND `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL ORDER BY `ACTIVEMQ_MSGS`.`ID`;

-- find_messages_of_size(after, up_to, size, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`CONTAINER`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`ID` > %s AND `ACTIVEMQ_MSGS`.`ID` <= %s AND length(`ACTIVEMQ_MSGS`.`MSG`) = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_next_messages(container, container, after, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_next_messages_by_priority.lowest(container, container, after, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) < 1 ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_next_messages_by_priority.other(container, container, after, priority, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`MSG`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_PIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND `ACTIVEMQ_MSGS`.`PRIORITY` = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_number(name_)
SELECT `JDBCSTORE_STATE`.`NUMBER`
FROM `JDBCSTORE_STATE`
WHERE `JDBCSTORE_STATE`.`NAME` = %s;

-- find_number_for_update(name_)
SELECT `JDBCSTORE_STATE`.`NUMBER`
FROM `JDBCSTORE_STATE`
WHERE `JDBCSTORE_STATE`.`NAME` = %s FOR UPDATE;

-- find_priorities(container, container, limit)
SELECT `ACTIVEMQ_MSGS`.`PRIORITY`
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_priority_by_id(id_, container, container)
SELECT `ACTIVEMQ_MSGS`.`ID`, `ACTIVEMQ_MSGS`.`PRIORITY`
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`ID` = %s AND `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL;

-- find_sizes_by_ids(id_0, id_1, id_2, id_3, id_4, id_5, id_6, id_7, id_8, id_9, id_10, id_11, id_12, id_13, id_14, id_15, id_16, id_17, id_18, id_19, id_20, id_21, id_22, id_23, id_24, id_25, id_26, id_27, id_28, id_29, id_30, id_31, id_32, id_33, id_34, id_35, id_36, id_37, id_38, id_39, id_40, id_41, id_42, id_43, id_44, id_45, id_46, id_47, id_48, id_49, id_50, id_51, id_52, id_53, id_54, id_55, id_56, id_57, id_58, id_59, id_60, id_61, id_62, id_63, id_64, id_65, id_66, id_67, id_68, id_69, id_70, id_71, id_72, id_73, id_74, id_75, id_76, id_77, id_78, id_79, id_80, id_81, id_82, id_83, id_84, id_85, id_86, id_87, id_88, id_89, id_90, id_91, id_92, id_93, id_94, id_95, id_96, id_97, id_98, id_99, id_100, id_101, id_102, id_103, id_104, id_105, id_106, id_107, id_108, id_109, id_110, id_111, id_112, id_113, id_114, id_115, id_116, id_117, id_118, id_119, id_120, id_121, id_122, id_123, id_124, id_125, id_126, id_127, id_128, id_129, id_130, id_131, id_132, id_133, id_134, id_135, id_136, id_137, id_138, id_139, id_140, id_141, id_142, id_143, id_144, id_145, id_146, id_147, id_148, id_149, id_150, id_151, id_152, id_153, id_154, id_155, id_156, id_157, id_158, id_159, id_160, id_161, id_162, id_163, id_164, id_165, id_166, id_167, id_168, id_169, id_170, id_171, id_172, id_173, id_174, id_175, id_176, id_177, id_178, id_179, id_180, id_181, id_182, id_183, id_184, id_185, id_186, id_187, id_188, id_189, id_190, id_191, id_192, id_193, id_194, id_195, id_196, id_197, id_198, id_199, container, container)
SELECT `ACTIVEMQ_MSGS`.`ID`, length(`ACTIVEMQ_MSGS`.`MSG`) AS length_1
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`ID` IN (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) AND `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL;

-- find_subscribed_destinations()
SELECT DISTINCT convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin AS anon_1
FROM `ACTIVEMQ_ACKS`;

-- find_subscriptions_in_doubt(container, container)
SELECT DISTINCT `JDBCSTORE_ACKS`.`CLIENT_ID`, `JDBCSTORE_ACKS`.`SUB_NAME`
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`XID` > ' ';

-- find_taken_for_it(container, client_id, sub_name)
SELECT `ACTIVEMQ_ACKS`.`CONTAINER`, `ACTIVEMQ_ACKS`.`CLIENT_ID`, `ACTIVEMQ_ACKS`.`SUB_NAME`
FROM `ACTIVEMQ_ACKS`
WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s;

-- find_window(container, container, client_id, client_id, sub_name, sub_name, container, container, after, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, (SELECT CASE WHEN (`JDBCSTORE_ACKS`.`XID` IS NULL) THEN `JDBCSTORE_ACKS`.`ID` ELSE -`JDBCSTORE_ACKS`.`ID` END AS anon_2
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s) AS anon_1
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_window(container, container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT `ACTIVEMQ_MSGS`.`ID`, NULL AS anon_1
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_window_by_priority.lowest(container, container, client_id, client_id, sub_name, sub_name, container, container, after, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, (SELECT CASE WHEN (`JDBCSTORE_ACKS`.`XID` IS NULL) THEN `JDBCSTORE_ACKS`.`ID` ELSE -`JDBCSTORE_ACKS`.`ID` END AS anon_2
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s) AS anon_1
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) < 1 ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_window_by_priority.lowest(container, container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT `ACTIVEMQ_MSGS`.`ID`, NULL AS anon_1
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND coalesce(`ACTIVEMQ_MSGS`.`PRIORITY`, 0) < 1 ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_window_by_priority.other(container, container, client_id, client_id, sub_name, sub_name, container, container, after, priority, limit)
SELECT `ACTIVEMQ_MSGS`.`ID`, (SELECT CASE WHEN (`JDBCSTORE_ACKS`.`XID` IS NULL) THEN `JDBCSTORE_ACKS`.`ID` ELSE -`JDBCSTORE_ACKS`.`ID` END AS anon_2
FROM `JDBCSTORE_ACKS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ` AND `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s) AS anon_1
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_PIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND `ACTIVEMQ_MSGS`.`PRIORITY` = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_window_by_priority.other(container, container, after, priority, limit), of a store opened to read ActiveMQ's tables alone
SELECT `ACTIVEMQ_MSGS`.`ID`, NULL AS anon_1
FROM `ACTIVEMQ_MSGS` FORCE INDEX (ACTIVEMQ_MSGS_CIDX, ACTIVEMQ_MSGS_PIDX)
WHERE `ACTIVEMQ_MSGS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`XID` IS NULL AND `ACTIVEMQ_MSGS`.`ID` > %s AND `ACTIVEMQ_MSGS`.`PRIORITY` = %s ORDER BY `ACTIVEMQ_MSGS`.`ID`
 LIMIT %s;

-- find_written(id_, msgid_prod, msgid_seq, container)
SELECT 1
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`ID` = CAST(%s AS SIGNED INTEGER) AND `ACTIVEMQ_MSGS`.`MSGID_PROD` = %s AND `ACTIVEMQ_MSGS`.`MSGID_SEQ` = CAST(%s AS SIGNED INTEGER) AND `ACTIVEMQ_MSGS`.`CONTAINER` = %s;

-- hold_number(name_, number_)
SELECT `JDBCSTORE_STATE`.`NUMBER`
FROM `JDBCSTORE_STATE`
WHERE `JDBCSTORE_STATE`.`NAME` = %s AND `JDBCSTORE_STATE`.`NUMBER` = %s LOCK IN SHARE MODE;

-- last_producer_sequence_id(msgid_prod, msgid_prod)
SELECT max(`ACTIVEMQ_MSGS`.`MSGID_SEQ`) AS max_1
FROM `ACTIVEMQ_MSGS`
WHERE `ACTIVEMQ_MSGS`.`MSGID_PROD` = %s AND (convert(`ACTIVEMQ_MSGS`.`MSGID_PROD` USING utf8mb4) COLLATE utf8mb4_bin) = %s;

-- remove_acknowledged(container, container, client_id, client_id, sub_name, sub_name, id_)
DELETE FROM `JDBCSTORE_ACKS` WHERE `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`ID` = %s;

-- remove_all_acknowledged(container, container, client_id, client_id, sub_name, sub_name)
DELETE FROM `JDBCSTORE_ACKS` WHERE `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s;

-- remove_destination_acknowledged(container, container)
DELETE FROM `JDBCSTORE_ACKS` WHERE `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s;

-- remove_message(container, id_)
DELETE FROM `ACTIVEMQ_MSGS` WHERE `ACTIVEMQ_MSGS`.`XID` IS NULL AND (convert(`ACTIVEMQ_MSGS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_MSGS`.`ID` = %s;

-- remove_stale_acknowledged(container, container, client_id, client_id, sub_name, sub_name, after, up_to)
DELETE FROM `JDBCSTORE_ACKS` WHERE `JDBCSTORE_ACKS`.`CONTAINER` = %s AND (convert(`JDBCSTORE_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`CLIENT_ID` = %s AND (convert(`JDBCSTORE_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`SUB_NAME` = %s AND (convert(`JDBCSTORE_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `JDBCSTORE_ACKS`.`ID` > %s AND `JDBCSTORE_ACKS`.`ID` <= %s AND `JDBCSTORE_ACKS`.`XID` IS NULL AND NOT (EXISTS (SELECT 1
FROM `ACTIVEMQ_MSGS`
WHERE `JDBCSTORE_ACKS`.`CONTAINER` = `ACTIVEMQ_MSGS`.`CONTAINER` AND `JDBCSTORE_ACKS`.`ID` = `ACTIVEMQ_MSGS`.`ID` AND `JDBCSTORE_ACKS`.`MSGID_PROD` = `ACTIVEMQ_MSGS`.`MSGID_PROD` AND `JDBCSTORE_ACKS`.`MSGID_SEQ` = `ACTIVEMQ_MSGS`.`MSGID_SEQ`));

-- update_durable_last_ack(last, container, container, client_id, client_id, sub_name, sub_name, priority_)
UPDATE `ACTIVEMQ_ACKS` SET `LAST_ACKED_ID`=%s WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND (convert(`ACTIVEMQ_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s AND (convert(`ACTIVEMQ_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` = %s;

-- update_durable_last_ack_with_priority(last, container, container, client_id, client_id, sub_name, sub_name, priority_)
UPDATE `ACTIVEMQ_ACKS` SET `LAST_ACKED_ID`=%s WHERE `ACTIVEMQ_ACKS`.`CONTAINER` = %s AND (convert(`ACTIVEMQ_ACKS`.`CONTAINER` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`CLIENT_ID` = %s AND (convert(`ACTIVEMQ_ACKS`.`CLIENT_ID` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`SUB_NAME` = %s AND (convert(`ACTIVEMQ_ACKS`.`SUB_NAME` USING utf8mb4) COLLATE utf8mb4_bin) = %s AND `ACTIVEMQ_ACKS`.`PRIORITY` = %s;

-- update_message(blob, id_)
UPDATE `ACTIVEMQ_MSGS` SET `MSG`=%s WHERE `ACTIVEMQ_MSGS`.`ID` = %s;

-- update_number(new, name_)
UPDATE `JDBCSTORE_STATE` SET `NUMBER`=%s WHERE `JDBCSTORE_STATE`.`NAME` = %s;

-- update_position(new, name_)
UPDATE `JDBCSTORE_STATE` SET `NUMBER`=%s WHERE `JDBCSTORE_STATE`.`NAME` = %s;
