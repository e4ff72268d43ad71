"""The user's statements are run, and a wrong one is told when the store opens."""

from __future__ import annotations

import pytest

from jdbcstore import Message
from jdbcstore.errors import ConfigurationError, SchemaError
from jdbcstore.testing import OpenStore
from jdbcstore.testing.messages import content, fill
from jdbcstore.testing.without import IN_THE_JOURNAL, NO_WAITING
from tests.support.backends import Backend
from tests.support.databases import Database
from tests.support.statements import ACTIVEMQ_STATEMENTS

pytestmark = [pytest.mark.new_database, pytest.mark.variants(), pytest.mark.usefixtures("database")]

PAGE = "SELECT ID, MSG FROM ACTIVEMQ_MSGS WHERE CONTAINER=:container AND ID<:max_id AND ID>:last_id"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "removeMessageStatement",
            "DELETE FROM NOWHERE WHERE ID=?",
            ": the database refuses it: .*(?i:nowhere)",
        ),
        ("destinationMessageCountStatement", "SELEKT ? FROM ACTIVEMQ_MSGS", ": the database refuses it: "),
        (
            "findNextMessagesStatement",
            f"{PAGE} ORDER BY",
            r": .* refuses it( \(LIMIT \? is appended to it\))?: ",
        ),
        ("findMessageByIdStatement", "SELECT 1, MSG FROM ACTIVEMQ_MSGS WHERE ID=?", " returns 2 .* 1: MSG"),
    ],
)
def test_a_wrong_statement_is_told_when_the_store_opens(
    open_store: OpenStore, name: str, text: str, told: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}{told}"):
        open_store(statements={name: text})


@IN_THE_JOURNAL
def test_they_are_run(open_store: OpenStore, database: Database) -> None:
    """Each writes or finds what the store's own would not."""
    store = open_store(
        statements={
            "addMessageStatement": (
                "INSERT INTO ACTIVEMQ_MSGS"
                " (ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG, PRIORITY, XID)"
                " VALUES (:id, :container, :msgid_prod, :msgid_seq, :expiration + 77, :msg, :priority, :xid)"
            ),
            "removeMessageStatement": "UPDATE ACTIVEMQ_MSGS SET XID = '100%' WHERE ID = :id",
            "findNextMessagesStatement": f"{PAGE} AND ID <> 2 ORDER BY ID DESC; ",
            "destinationMessageCountStatement": "SELECT 4711 FROM ACTIVEMQ_LOCK WHERE :container <> '?%'",
        }
    )
    queue = store.queue("ORDERS")
    fill(queue, "a", "b", "c")
    queue.add_message(Message("d"))
    queue.acknowledge(1)

    assert content(queue) == ["d", "c", "a"]
    assert queue.message_count() == 4711
    assert database.rows("SELECT ID, EXPIRATION, XID FROM ACTIVEMQ_MSGS ORDER BY ID") == [
        (1, 77, "100%"),
        (2, 77, None),
        (3, 77, None),
        (4, 77, None),
    ]


@NO_WAITING
def test_a_batch_of_the_user_s_statements_commits_whole(open_store: OpenStore, database: Database) -> None:
    store = open_store(statements={"addMessageStatement": ACTIVEMQ_STATEMENTS["addMessageStatement"]})
    queue = store.queue("ORDERS")
    fill(queue, *map(str, range(500)))
    database.execute("UPDATE ACTIVEMQ_MSGS SET ID = 700 WHERE ID = 500")
    with store.transaction() as transaction:
        for number in range(300):
            transaction.queue("ORDERS").add_message(Message(str(number)))

    assert queue.message_count() == 800
    assert len(set(database.rows("SELECT ID FROM ACTIVEMQ_MSGS"))) == 800


_BINARY = {"postgresql": "BYTEA", **dict.fromkeys(("mariadb", "mariadb-pyodbc", "mysql"), "LONGBLOB")}


@pytest.mark.backends("sqlite", "postgresql", "mariadb", "mariadb-pyodbc", "mysql", "h2", "hsqldb", "derby")
def test_tables_in_the_user_s_words(open_store: OpenStore, backend: Backend, database: Database) -> None:
    """As an ActiveMQ, all are tried: the last is refused everywhere, and changes nothing."""
    binary = _BINARY.get(backend.vendor, "BLOB")
    store = open_store(
        statements={
            "createSchemaStatements": [
                "CREATE TABLE ACTIVEMQ_MSGS"
                " (ID BIGINT NOT NULL PRIMARY KEY, CONTAINER VARCHAR(99), MSGID_PROD VARCHAR(99),"
                f" MSGID_SEQ BIGINT, EXPIRATION BIGINT, MSG {binary}, OURS CHAR(1))",
                "ALTER TABLE ACTIVEMQ_MSGS ADD PRIORITY BIGINT",
                "ALTER TABLE ACTIVEMQ_MSGS ADD XID VARCHAR(99)",
                "CREATE TABLE ACTIVEMQ_ACKS"
                " (CONTAINER VARCHAR(99) NOT NULL, SUB_DEST VARCHAR(99), CLIENT_ID VARCHAR(99) NOT NULL,"
                " SUB_NAME VARCHAR(99) NOT NULL, SELECTOR VARCHAR(99), LAST_ACKED_ID BIGINT,"
                " PRIORITY BIGINT NOT NULL,"
                " XID VARCHAR(99), PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY))",
                "ALTER TABLE ACTIVEMQ_ACKS FROBNICATE",
            ]
        }
    )
    fill(store.queue("ORDERS"), "a")

    assert content(store.queue("ORDERS")) == ["a"]
    assert database.rows("SELECT ID, OURS FROM ACTIVEMQ_MSGS") == [(1, None)]


def test_statements_that_do_not_make_the_tables(open_store: OpenStore) -> None:
    given = {"create_schema_statements": "CREATE TABLE ACTIVEMQ_MSGS (ID BIGINT); SELEKT"}
    with pytest.raises(SchemaError, match=r"createSchemaStatements left .* without the column .*SELEKT"):
        open_store(statements=given)
