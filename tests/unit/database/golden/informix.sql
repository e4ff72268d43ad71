-- informix: made by python -m tests.unit.database.golden, not to be edited
-- The tables: sql/informix/create.sql

-- add_acknowledged(client_id, sub_name, id_, container, container, client_id, sub_name)
INSERT INTO jdbcstore_acks (container, client_id, sub_name, id, msgid_prod, msgid_seq) SELECT activemq_msgs.container, ? AS anon_1, ? AS anon_2, activemq_msgs.id, activemq_msgs.msgid_prod, activemq_msgs.msgid_seq
FROM activemq_msgs
WHERE activemq_msgs.id = ? AND activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND coalesce((SELECT jdbcstore_acks.id
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?), -1) != activemq_msgs.id;

-- add_message(id, container, msgid_prod, msgid_seq, expiration, msg, priority, xid)
INSERT INTO activemq_msgs (id, container, msgid_prod, msgid_seq, expiration, msg, priority, xid) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- add_number(name, number)
INSERT INTO jdbcstore_state (name, number) VALUES (?, ?);

-- create_durable_sub(container, sub_dest, client_id, sub_name, selector, last_acked_id, priority, xid)
INSERT INTO activemq_acks (container, sub_dest, client_id, sub_name, selector, last_acked_id, priority, xid) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- delete_destination_subscriptions(container)
DELETE FROM activemq_acks WHERE activemq_acks.container = ?;

-- delete_subscription(container, client_id, sub_name)
DELETE FROM activemq_acks WHERE activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ?;

-- destination_message_count(container)
SELECT count(*) AS count_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL;

-- destination_statistics(container)
SELECT count(*) AS count_1, coalesce(sum(length(activemq_msgs.msg)), 0) AS coalesce_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL;

-- durable_subscriber_message_count(container, after, container, client_id, sub_name)
SELECT count(*) AS count_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce((SELECT jdbcstore_acks.id
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?), -1) != activemq_msgs.id;

-- durable_subscriber_message_count(container, after), of a store opened to read ActiveMQ's tables alone
SELECT count(*) AS count_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(NULL, -1) != activemq_msgs.id;

-- durable_subscriber_message_count_with_priority(container, client_id, sub_name, container, container, client_id, sub_name)
SELECT count(*) AS count_1
FROM activemq_msgs JOIN activemq_acks ON activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ? AND activemq_acks.priority = coalesce(activemq_msgs.priority, 0) AND coalesce(activemq_acks.last_acked_id, 0) < activemq_msgs.id
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND coalesce((SELECT jdbcstore_acks.id
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?), -1) != activemq_msgs.id;

-- durable_subscriber_message_count_with_priority(container, client_id, sub_name, container), of a store opened to read ActiveMQ's tables alone
SELECT count(*) AS count_1
FROM activemq_msgs JOIN activemq_acks ON activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ? AND activemq_acks.priority = coalesce(activemq_msgs.priority, 0) AND coalesce(activemq_acks.last_acked_id, 0) < activemq_msgs.id
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND coalesce(NULL, -1) != activemq_msgs.id;

-- find_acknowledged(container, container, container, client_id, sub_name, after, limit)
SELECT jdbcstore_acks.id, activemq_msgs.id AS id_1, CASE WHEN (activemq_msgs.id IS NOT NULL AND activemq_msgs.xid IS NULL AND NOT (EXISTS (SELECT 1
FROM activemq_acks
WHERE activemq_acks.container = ? AND (activemq_acks.priority = coalesce(activemq_msgs.priority, 0) OR NOT (EXISTS (SELECT 1
FROM activemq_acks AS other
WHERE other.container = ? AND other.client_id = activemq_acks.client_id AND other.sub_name = activemq_acks.sub_name AND other.priority != activemq_acks.priority))) AND coalesce(activemq_acks.last_acked_id, 0) < activemq_msgs.id AND NOT (EXISTS (SELECT 1
FROM jdbcstore_acks AS by_others
WHERE by_others.container = activemq_msgs.container AND by_others.id = activemq_msgs.id AND by_others.msgid_prod = activemq_msgs.msgid_prod AND by_others.msgid_seq = activemq_msgs.msgid_seq AND by_others.xid IS NULL AND by_others.client_id = activemq_acks.client_id AND by_others.sub_name = activemq_acks.sub_name))))) THEN 1 ELSE 0 END AS anon_1
FROM jdbcstore_acks LEFT OUTER JOIN activemq_msgs ON jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq
WHERE jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ? AND jdbcstore_acks.id > ? ORDER BY jdbcstore_acks.id {maxrows ?};

-- find_acknowledged_in_doubt(container)
SELECT DISTINCT jdbcstore_acks.id
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = ? AND jdbcstore_acks.xid > ' ';

-- find_all_destinations()
SELECT activemq_msgs.container
FROM activemq_msgs UNION SELECT activemq_acks.container
FROM activemq_acks;

-- find_all_durable_subs(container)
SELECT activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority, activemq_acks.last_acked_id, activemq_acks.selector, activemq_acks.sub_dest
FROM activemq_acks
WHERE activemq_acks.container = ? AND activemq_acks.priority BETWEEN 0 AND 9 ORDER BY activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority;

-- find_all_marks(container)
SELECT activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority, activemq_acks.last_acked_id, activemq_acks.selector, activemq_acks.sub_dest
FROM activemq_acks
WHERE activemq_acks.container = ? AND activemq_acks.priority BETWEEN 0 AND 9 ORDER BY activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority;

-- find_all_message_ids(limit)
SELECT activemq_msgs.msgid_prod, activemq_msgs.msgid_seq
FROM activemq_msgs ORDER BY activemq_msgs.id DESC {maxrows ?};

-- find_durable_sub(container, client_id, sub_name)
SELECT activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority, activemq_acks.last_acked_id, activemq_acks.selector, activemq_acks.sub_dest
FROM activemq_acks
WHERE activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ? AND activemq_acks.priority BETWEEN 0 AND 9 ORDER BY activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority;

-- find_durable_sub_messages(container, after, container, client_id, sub_name, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce((SELECT jdbcstore_acks.id
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?), -1) != activemq_msgs.id ORDER BY activemq_msgs.id {maxrows ?};

-- find_durable_sub_messages(container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(NULL, -1) != activemq_msgs.id ORDER BY activemq_msgs.id {maxrows ?};

-- find_durable_sub_messages_by_priority.lowest(container, after, container, client_id, sub_name, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce((SELECT jdbcstore_acks.id
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?), -1) != activemq_msgs.id AND coalesce(activemq_msgs.priority, 0) < 1 ORDER BY activemq_msgs.id {maxrows ?};

-- find_durable_sub_messages_by_priority.lowest(container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(NULL, -1) != activemq_msgs.id AND coalesce(activemq_msgs.priority, 0) < 1 ORDER BY activemq_msgs.id {maxrows ?};

-- find_durable_sub_messages_by_priority.other(container, after, container, client_id, sub_name, priority, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce((SELECT jdbcstore_acks.id
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?), -1) != activemq_msgs.id AND activemq_msgs.priority = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_durable_sub_messages_by_priority.other(container, after, priority, limit), of a store opened to read ActiveMQ's tables alone
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(NULL, -1) != activemq_msgs.id AND activemq_msgs.priority = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_expired_ids(container, after, now_ms, limit)
SELECT activemq_msgs.id
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND activemq_msgs.expiration > 0 AND activemq_msgs.expiration < ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_expired_messages(container, after, now_ms, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND activemq_msgs.expiration > 0 AND activemq_msgs.expiration < ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_id_owner(id_)
SELECT activemq_msgs.msgid_prod, activemq_msgs.msgid_seq, activemq_msgs.container
FROM activemq_msgs
WHERE activemq_msgs.id = ?;

-- find_ids(container, after, limit)
SELECT activemq_msgs.id
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_ids_by_name(msgid_prod, msgid_seq)
SELECT activemq_msgs.id
FROM activemq_msgs
WHERE activemq_msgs.msgid_prod = ? AND activemq_msgs.msgid_seq = ?;

-- find_ids_by_priority.lowest(container, after, limit)
SELECT activemq_msgs.id
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(activemq_msgs.priority, 0) < 1 ORDER BY activemq_msgs.id {maxrows ?};

-- find_ids_by_priority.other(container, after, priority, limit)
SELECT activemq_msgs.id
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND activemq_msgs.priority = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_in_doubt_messages(container, after, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NOT NULL AND activemq_msgs.id > ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_journal(param_1, param_2, param_3, param_4, param_5, param_6)
SELECT jdbcstore_state.name, jdbcstore_state.number
FROM jdbcstore_state
WHERE jdbcstore_state.name IN (?, ?, ?, ?, ?, ?);

-- find_last_sequence_id_in_acks()
SELECT max(activemq_acks.last_acked_id) AS max_1
FROM activemq_acks;

-- find_last_sequence_id_in_msgs()
SELECT max(activemq_msgs.id) AS max_1
FROM activemq_msgs;

-- find_lock()
SELECT activemq_lock.id, activemq_lock.time, activemq_lock.broker_name
FROM activemq_lock;

-- find_marks(container, client_id, sub_name)
SELECT activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority, activemq_acks.last_acked_id, activemq_acks.selector, activemq_acks.sub_dest
FROM activemq_acks
WHERE activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ? AND activemq_acks.priority BETWEEN 0 AND 9 ORDER BY activemq_acks.client_id, activemq_acks.sub_name, activemq_acks.priority;

-- find_message_by_id(id_, container)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.id = ? AND activemq_msgs.container = ? AND activemq_msgs.xid IS NULL;

-- find_message_sequence_id(msgid_prod, msgid_seq, container)
SELECT activemq_msgs.id, activemq_msgs.priority
FROM activemq_msgs
WHERE activemq_msgs.msgid_prod = ? AND activemq_msgs.msgid_seq = ? AND activemq_msgs.container = ? AND activemq_msgs.xid IS NULL ORDER BY activemq_msgs.id;

-- find_messages_of_size(after, up_to, size, limit)
SELECT activemq_msgs.id, activemq_msgs.container, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.id > ? AND activemq_msgs.id <= ? AND length(activemq_msgs.msg) = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_next_messages(container, after, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_next_messages_by_priority.lowest(container, after, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(activemq_msgs.priority, 0) < 1 ORDER BY activemq_msgs.id {maxrows ?};

-- find_next_messages_by_priority.other(container, after, priority, limit)
SELECT activemq_msgs.id, activemq_msgs.msg
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND activemq_msgs.priority = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_number(name_)
SELECT jdbcstore_state.number
FROM jdbcstore_state
WHERE jdbcstore_state.name = ?;

-- find_number_for_update(name_)
SELECT jdbcstore_state.number
FROM jdbcstore_state
WHERE jdbcstore_state.name = ?;

-- find_priorities(container, limit)
SELECT activemq_msgs.priority
FROM activemq_msgs
WHERE activemq_msgs.container = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_priority_by_id(id_, container)
SELECT activemq_msgs.id, activemq_msgs.priority
FROM activemq_msgs
WHERE activemq_msgs.id = ? AND activemq_msgs.container = ? AND activemq_msgs.xid IS NULL;

-- find_sizes_by_ids(id_0, id_1, id_2, id_3, id_4, id_5, id_6, id_7, id_8, id_9, id_10, id_11, id_12, id_13, id_14, id_15, id_16, id_17, id_18, id_19, id_20, id_21, id_22, id_23, id_24, id_25, id_26, id_27, id_28, id_29, id_30, id_31, id_32, id_33, id_34, id_35, id_36, id_37, id_38, id_39, id_40, id_41, id_42, id_43, id_44, id_45, id_46, id_47, id_48, id_49, id_50, id_51, id_52, id_53, id_54, id_55, id_56, id_57, id_58, id_59, id_60, id_61, id_62, id_63, id_64, id_65, id_66, id_67, id_68, id_69, id_70, id_71, id_72, id_73, id_74, id_75, id_76, id_77, id_78, id_79, id_80, id_81, id_82, id_83, id_84, id_85, id_86, id_87, id_88, id_89, id_90, id_91, id_92, id_93, id_94, id_95, id_96, id_97, id_98, id_99, id_100, id_101, id_102, id_103, id_104, id_105, id_106, id_107, id_108, id_109, id_110, id_111, id_112, id_113, id_114, id_115, id_116, id_117, id_118, id_119, id_120, id_121, id_122, id_123, id_124, id_125, id_126, id_127, id_128, id_129, id_130, id_131, id_132, id_133, id_134, id_135, id_136, id_137, id_138, id_139, id_140, id_141, id_142, id_143, id_144, id_145, id_146, id_147, id_148, id_149, id_150, id_151, id_152, id_153, id_154, id_155, id_156, id_157, id_158, id_159, id_160, id_161, id_162, id_163, id_164, id_165, id_166, id_167, id_168, id_169, id_170, id_171, id_172, id_173, id_174, id_175, id_176, id_177, id_178, id_179, id_180, id_181, id_182, id_183, id_184, id_185, id_186, id_187, id_188, id_189, id_190, id_191, id_192, id_193, id_194, id_195, id_196, id_197, id_198, id_199, container)
SELECT activemq_msgs.id, length(activemq_msgs.msg) AS length_1
FROM activemq_msgs
WHERE activemq_msgs.id IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) AND activemq_msgs.container = ? AND activemq_msgs.xid IS NULL;

-- find_subscribed_destinations()
SELECT DISTINCT activemq_acks.container
FROM activemq_acks;

-- find_subscriptions_in_doubt(container)
SELECT DISTINCT jdbcstore_acks.client_id, jdbcstore_acks.sub_name
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = ? AND jdbcstore_acks.xid > ' ';

-- find_taken_for_it(container, client_id, sub_name)
SELECT activemq_acks.container, activemq_acks.client_id, activemq_acks.sub_name
FROM activemq_acks
WHERE activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ?;

-- find_window(container, client_id, sub_name, container, after, limit)
SELECT activemq_msgs.id, (SELECT CASE WHEN (jdbcstore_acks.xid IS NULL) THEN jdbcstore_acks.id ELSE -jdbcstore_acks.id END AS anon_2
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?) AS anon_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_window(container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT activemq_msgs.id, NULL AS anon_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_window_by_priority.lowest(container, client_id, sub_name, container, after, limit)
SELECT activemq_msgs.id, (SELECT CASE WHEN (jdbcstore_acks.xid IS NULL) THEN jdbcstore_acks.id ELSE -jdbcstore_acks.id END AS anon_2
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?) AS anon_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(activemq_msgs.priority, 0) < 1 ORDER BY activemq_msgs.id {maxrows ?};

-- find_window_by_priority.lowest(container, after, limit), of a store opened to read ActiveMQ's tables alone
SELECT activemq_msgs.id, NULL AS anon_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND coalesce(activemq_msgs.priority, 0) < 1 ORDER BY activemq_msgs.id {maxrows ?};

-- find_window_by_priority.other(container, client_id, sub_name, container, after, priority, limit)
SELECT activemq_msgs.id, (SELECT CASE WHEN (jdbcstore_acks.xid IS NULL) THEN jdbcstore_acks.id ELSE -jdbcstore_acks.id END AS anon_2
FROM jdbcstore_acks
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq AND jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?) AS anon_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND activemq_msgs.priority = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_window_by_priority.other(container, after, priority, limit), of a store opened to read ActiveMQ's tables alone
SELECT activemq_msgs.id, NULL AS anon_1
FROM activemq_msgs
WHERE activemq_msgs.container = ? AND activemq_msgs.xid IS NULL AND activemq_msgs.id > ? AND activemq_msgs.priority = ? ORDER BY activemq_msgs.id {maxrows ?};

-- find_written(id_, msgid_prod, msgid_seq, container)
SELECT 1
FROM activemq_msgs
WHERE activemq_msgs.id = CAST(? AS BIGINT) AND activemq_msgs.msgid_prod = ? AND activemq_msgs.msgid_seq = CAST(? AS BIGINT) AND activemq_msgs.container = ?;

-- hold_number(name_, number_)
UPDATE jdbcstore_state SET number=jdbcstore_state.number WHERE jdbcstore_state.name = ? AND jdbcstore_state.number = ?;

-- last_producer_sequence_id(msgid_prod)
SELECT max(activemq_msgs.msgid_seq) AS max_1
FROM activemq_msgs
WHERE activemq_msgs.msgid_prod = ?;

-- lock_number(name_)
UPDATE jdbcstore_state SET number=jdbcstore_state.number WHERE jdbcstore_state.name = ?;

-- remove_acknowledged(container, client_id, sub_name, id_)
DELETE FROM jdbcstore_acks WHERE jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ? AND jdbcstore_acks.id = ?;

-- remove_all_acknowledged(container, client_id, sub_name)
DELETE FROM jdbcstore_acks WHERE jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ?;

-- remove_destination_acknowledged(container)
DELETE FROM jdbcstore_acks WHERE jdbcstore_acks.container = ?;

-- remove_message(container, id_)
DELETE FROM activemq_msgs WHERE activemq_msgs.xid IS NULL AND (activemq_msgs.container || '') = ? AND activemq_msgs.id = ?;

-- remove_stale_acknowledged(container, client_id, sub_name, after, up_to)
DELETE FROM jdbcstore_acks WHERE jdbcstore_acks.container = ? AND jdbcstore_acks.client_id = ? AND jdbcstore_acks.sub_name = ? AND jdbcstore_acks.id > ? AND jdbcstore_acks.id <= ? AND jdbcstore_acks.xid IS NULL AND NOT (EXISTS (SELECT 1
FROM activemq_msgs
WHERE jdbcstore_acks.container = activemq_msgs.container AND jdbcstore_acks.id = activemq_msgs.id AND jdbcstore_acks.msgid_prod = activemq_msgs.msgid_prod AND jdbcstore_acks.msgid_seq = activemq_msgs.msgid_seq));

-- update_durable_last_ack(last, container, client_id, sub_name, priority_)
UPDATE activemq_acks SET last_acked_id=? WHERE activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ? AND activemq_acks.priority = ?;

-- update_durable_last_ack_with_priority(last, container, client_id, sub_name, priority_)
UPDATE activemq_acks SET last_acked_id=? WHERE activemq_acks.container = ? AND activemq_acks.client_id = ? AND activemq_acks.sub_name = ? AND activemq_acks.priority = ?;

-- update_message(blob, id_)
UPDATE activemq_msgs SET msg=? WHERE activemq_msgs.id = ?;

-- update_number(new, name_)
UPDATE jdbcstore_state SET number=? WHERE jdbcstore_state.name = ?;

-- update_position(new, name_)
UPDATE jdbcstore_state SET number=? WHERE jdbcstore_state.name = ?;
