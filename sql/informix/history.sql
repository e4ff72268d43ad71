-- The table of removed messages, for stores with history_retention.
-- Written by: make sql

CREATE TABLE jdbcstore_history (
    removed INT8 NOT NULL,
    id INT8 NOT NULL,
    container VARCHAR(150) NOT NULL,
    msgid_prod VARCHAR(250),
    msgid_seq INT8,
    outcome VARCHAR(150) NOT NULL,
    produced INT8,
    jms_priority INT8,
    msg_size INT8,
    redeliveries INT8,
    reason VARCHAR(150),
    PRIMARY KEY (removed, id)
);

GRANT SELECT, INSERT, DELETE ON jdbcstore_history TO jdbcstore;
