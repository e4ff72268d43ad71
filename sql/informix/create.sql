-- All tables, for an empty database. ActiveMQ and jdbcstore work on them.
-- Written by: make sql

CREATE TABLE activemq_msgs (
    id INT8 NOT NULL,
    container VARCHAR(150) NOT NULL,
    msgid_prod VARCHAR(250),
    msgid_seq INT8,
    expiration INT8,
    msg BYTE,
    priority INT8,
    xid VARCHAR(150),
    PRIMARY KEY (id)
);

CREATE INDEX activemq_msgs_cidx ON activemq_msgs (container);

CREATE INDEX activemq_msgs_eidx ON activemq_msgs (expiration);

CREATE INDEX activemq_msgs_iidx ON activemq_msgs (id, xid, container);

CREATE INDEX activemq_msgs_midx ON activemq_msgs (msgid_prod, msgid_seq);

CREATE INDEX activemq_msgs_pidx ON activemq_msgs (priority);

CREATE INDEX activemq_msgs_xidx ON activemq_msgs (xid);

CREATE TABLE activemq_acks (
    container VARCHAR(150) NOT NULL,
    sub_dest VARCHAR(150),
    client_id VARCHAR(150) NOT NULL,
    sub_name VARCHAR(150) NOT NULL,
    selector VARCHAR(150),
    last_acked_id INT8,
    priority INT8 DEFAULT 5 NOT NULL,
    xid VARCHAR(150),
    PRIMARY KEY (container, client_id, sub_name, priority)
);

CREATE INDEX activemq_acks_xidx ON activemq_acks (xid);

CREATE TABLE activemq_lock (
    id INT8 NOT NULL,
    time INT8,
    broker_name VARCHAR(150),
    PRIMARY KEY (id)
);

CREATE TABLE jdbcstore_acks (
    container VARCHAR(150) NOT NULL,
    client_id VARCHAR(150) NOT NULL,
    sub_name VARCHAR(150) NOT NULL,
    id INT8 NOT NULL,
    msgid_prod VARCHAR(250),
    msgid_seq INT8,
    xid VARCHAR(150),
    PRIMARY KEY (container, client_id, sub_name, id)
);

CREATE INDEX jdbcstore_acks_xidx ON jdbcstore_acks (xid);

CREATE TABLE jdbcstore_state (
    name VARCHAR(150) NOT NULL,
    number INT8 NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE jdbcstore_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT jdbcstore_version_pkc PRIMARY KEY (version_num)
);

INSERT INTO activemq_lock (id) VALUES (1);

INSERT INTO jdbcstore_state (name, number) VALUES ('sequence', 0);

INSERT INTO jdbcstore_version (version_num) VALUES ('jdbcstore_3');
