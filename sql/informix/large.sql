-- Bodies that a broker keeps in pieces, in addition to create.sql.
-- Written by: make sql

CREATE TABLE jdbcstore_large (
    id INT8 NOT NULL,
    msg_id INT8 NOT NULL,
    touched INT8 NOT NULL,
    begun INT8 NOT NULL,
    PRIMARY KEY (id, msg_id)
);

CREATE TABLE jdbcstore_pieces (
    id INT8 NOT NULL,
    piece INT8 NOT NULL,
    data BYTE NOT NULL,
    PRIMARY KEY (id, piece)
);

CREATE INDEX jdbcstore_large_midx ON jdbcstore_large (msg_id);

INSERT INTO jdbcstore_state (name, number) VALUES ('large', 0);

GRANT SELECT, INSERT, UPDATE, DELETE ON jdbcstore_large TO jdbcstore;

GRANT SELECT, INSERT, UPDATE, DELETE ON jdbcstore_pieces TO jdbcstore;
