"""The user's statements of prepared transactions are run: each leaves a trace that ours would not."""

from __future__ import annotations

import pytest

from jdbcstore import JdbcStore, Message, StoreConfig, XATransactionId
from jdbcstore.testing import OpenStore
from jdbcstore.testing.messages import fill
from jdbcstore.testing.without import IN_THE_JOURNAL, TOPICS_ELSEWHERE
from tests.support.databases import Database

pytestmark = [
    pytest.mark.new_database,
    pytest.mark.variants(),
    pytest.mark.usefixtures("database"),
    pytest.mark.backends("sqlite", "postgresql", "mariadb", "mysql"),
    IN_THE_JOURNAL,
    TOPICS_ELSEWHERE,
]

XID = XATransactionId(86, b"\x01\x02\x03\x04", b"\x09\x02")
OTHER = XATransactionId(86, b"\x01\x02\x03\x04", b"\x09\x03")
_SUB = "CONTAINER = :container AND CLIENT_ID = :client_id AND SUB_NAME = :sub_name"
STATEMENTS = {
    "updateXidFlagStatement": "UPDATE ACTIVEMQ_MSGS SET XID = :xid, EXPIRATION = 77 WHERE ID = :id",
    "clearXidFlagStatement": (
        "UPDATE ACTIVEMQ_MSGS SET XID = NULL, ID = :new_id, EXPIRATION = 78 WHERE ID = :id"
    ),
    "updateDurableLastAckInTxStatement": f"UPDATE ACTIVEMQ_ACKS SET XID = :xid, SELECTOR = 'a' WHERE {_SUB}",
    "updateDurableLastAckWithPriorityInTxStatement": (
        f"UPDATE ACTIVEMQ_ACKS SET XID = :xid, SELECTOR = 'b' WHERE {_SUB} AND PRIORITY = :priority"
    ),
    "clearDurableLastAckInTxStatement": (
        f"UPDATE ACTIVEMQ_ACKS SET XID = NULL, SELECTOR = 'c' WHERE {_SUB} AND PRIORITY = :priority"
    ),
}


@pytest.mark.parametrize("prioritized", [False, True], ids=["in order", "by priority"])
def test_what_writes(open_store: OpenStore, database: Database, prioritized: bool) -> None:
    store = open_store(statements=STATEMENTS)
    queue, topic = store.queue("ORDERS"), store.topic("EVENTS", prioritized=prioritized)
    reader = topic.subscribe("client", "reader")
    fill(queue, "taken")
    fill(topic, "read", priority=3)
    transaction = store.xa.start(XID)
    transaction.queue("ORDERS").acknowledge(queue.recover()[0])
    transaction.queue("ORDERS").add_message(Message("new"))
    transaction.topic("EVENTS").acknowledge_subscription("client", "reader", reader.recover()[0])
    assert transaction.prepare()

    flagged = "SELECT EXPIRATION FROM ACTIVEMQ_MSGS WHERE ID = 1 AND XID IS NOT NULL"
    marked = "SELECT SELECTOR FROM ACTIVEMQ_ACKS WHERE XID IS NOT NULL"
    assert database.rows(flagged) == [(77,)]
    assert database.rows(marked) == [("b" if prioritized else "a",)]

    store.xa.commit(XID)
    query = "SELECT EXPIRATION FROM ACTIVEMQ_MSGS WHERE CONTAINER = 'queue://ORDERS'"
    assert database.rows(query) == [(78,)]
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_ACKS WHERE SELECTOR = 'c'") == [(1,)]


def test_what_reads(open_store: OpenStore, database: Database) -> None:
    store = open_store()
    queue, topic = store.queue("ORDERS"), store.topic("EVENTS")
    reader = topic.subscribe("client", "reader")
    fill(queue, "taken")
    fill(topic, "read")
    for xid in (XID, OTHER):
        transaction = store.xa.start(xid)
        if xid is XID:
            transaction.queue("ORDERS").acknowledge(queue.recover()[0])
        else:
            transaction.topic("EVENTS").acknowledge_subscription("client", "reader", reader.recover()[0])
        assert transaction.prepare()

    def recovered(statement: str, text: str) -> list[XATransactionId]:
        config = StoreConfig(cleanup_period=0, statements={statement: text})
        with JdbcStore(database.url, config, read_only=True) as looking:
            return [one.xid for one in looking.xa.recover()]

    all_of = "XID, CONTAINER, CLIENT_ID, SUB_NAME FROM ACTIVEMQ_ACKS WHERE XID IS NOT NULL"
    assert recovered("findAcksPendingOutcomeStatement", f"SELECT {all_of}") == [XID, OTHER]
    assert recovered("findAcksPendingOutcomeStatement", f"SELECT {all_of} AND SUB_NAME = 'x'") == [XID]
    all_of = "ID, XID, MSG FROM ACTIVEMQ_MSGS WHERE XID IS NOT NULL"
    assert recovered("findOpsPendingOutcomeStatement", f"SELECT {all_of} ORDER BY ID") == [XID, OTHER]
    assert recovered("findOpsPendingOutcomeStatement", f"SELECT {all_of} AND ID > 1 ORDER BY ID") == [OTHER]


def test_what_another_transaction_has_is_not_flagged(open_store: OpenStore, database: Database) -> None:
    find = {"findXidByIdStatement": "SELECT SUB_NAME FROM ACTIVEMQ_ACKS WHERE :id > 0"}
    store = open_store(statements=find)
    queue = store.queue("ORDERS")
    fill(queue, "taken")
    store.topic("EVENTS").subscribe("client", "reader")  # as if that were an XID
    transaction = store.xa.start(XID)
    transaction.queue("ORDERS").acknowledge(queue.recover()[0])
    assert not transaction.prepare()
    assert database.rows("SELECT XID FROM ACTIVEMQ_MSGS") == [(None,)]
