"""What one broker prepared, the other one recovers and decides."""

from __future__ import annotations

import pytest

from jdbcstore import Message, Store, XATransactionId
from jdbcstore.errors import TransactionNotFound
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.databases import Database
from tests.support.interop.messages import text

pytestmark = [
    pytest.mark.backends("postgresql", "mariadb", "mysql"),
    pytest.mark.parametrize("outcome", ["commit", "rollback"]),
]

QUEUE, TOPIC = "queue://XA", "topic://XA"


def branch(name: str) -> XATransactionId:
    """The one that the peer's client means by this name."""
    return XATransactionId(86, name.encode(), b"\x01")


def everything(store: Store) -> tuple[list[object], list[object]]:
    subscribed = store.topic(TOPIC).subscription("c", "s")
    return tuple(
        [message.body for message in source.recover()] for source in (store.queue(QUEUE), subscribed)
    )  # type: ignore[return-value]


def expected(outcome: str) -> tuple[list[str], list[str]]:
    if outcome == "commit":
        return ["left", "new"], ["unread", "news"]
    return ["taken", "left"], ["read", "unread"]


def test_jdbcstore_decides_what_activemq_prepared(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database, outcome: str
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, "c", "s")
        broker.send(QUEUE, [text("taken"), text("left")])
        broker.send(TOPIC, [text("read"), text("unread")])
        broker.xa_prepare("take", QUEUE, count=1)
        broker.xa_prepare("read", TOPIC, count=1, client_id="c", name="s")
        broker.xa_prepare("add", QUEUE, messages=[text("new")])
        broker.xa_prepare("publish", TOPIC, messages=[text("news")])

    names = ("add", "publish", "read", "take")
    with open_jdbcstore() as store:
        assert everything(store) == (["left"], ["unread"])
        assert [found.xid for found in store.xa.recover()] == [branch(name) for name in names]
        counts = [(one.added, one.acknowledged) for found in store.xa.recover() for one in found.writes]
        assert counts == [(1, 0), (1, 0), (0, 1), (0, 1)]
    with open_jdbcstore() as store:
        for name in names:
            (store.xa.commit if outcome == "commit" else store.xa.rollback)(branch(name))
        assert everything(store) == tuple(expected(outcome))
    for table in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "JDBCSTORE_ACKS"):
        assert database.rows(f"SELECT XID FROM {table} WHERE XID IS NOT NULL") == []

    with activemq() as broker:
        queue, topic = expected(outcome)
        assert [m["body"]["v"] for m in broker.receive(QUEUE, 2)] == queue
        assert [m["body"]["v"] for m in broker.durable_receive(TOPIC, "c", "s", 2)] == topic


def test_ids_in_every_form_of_base64(
    activemq: StartBroker, open_jdbcstore: OpenStore, database: Database, outcome: str
) -> None:
    """ActiveMQ's decoder is strict since 6.0."""
    ours, theirs = ("?", "??", "???", "~~~~"), ("????", "~?~?~", "~~~~~~", "~")
    with activemq() as broker:
        for name in theirs:
            broker.xa_prepare(name, QUEUE, messages=[text(name)])
    with open_jdbcstore() as store:
        for name in ours:
            transaction = store.xa.start(branch(name))
            transaction.queue(QUEUE).add_message(Message(name))
            assert transaction.prepare()
        ids = [str(row[0]) for row in database.rows("SELECT XID FROM ACTIVEMQ_MSGS")]
        assert {len(one) - len(one.rstrip("=")) for one in ids} == {0, 1, 2}
        assert {"+", "/"} <= set("".join(ids))
        for name in theirs:
            (store.xa.commit if outcome == "commit" else store.xa.rollback)(branch(name))
    with activemq() as broker:
        for name in ours:
            broker.xa_finish(name, outcome)
        expected = sorted([*ours, *theirs]) if outcome == "commit" else []
        assert sorted(one["body"]["v"] for one in broker.browse(QUEUE)) == expected


def test_activemq_decides_what_jdbcstore_prepared(
    activemq: StartBroker, open_jdbcstore: OpenStore, outcome: str
) -> None:
    with activemq() as broker:
        broker.subscribe(TOPIC, "c", "s")
    with open_jdbcstore() as store:
        subscribed = store.topic(TOPIC).subscription("c", "s")
        [taken, _] = store.queue(QUEUE).add_messages([Message("taken"), Message("left")])
        [read, _] = store.topic(TOPIC).add_messages([Message("read"), Message("unread")])
        transaction = store.xa.start(branch("all"))
        transaction.queue(QUEUE).acknowledge(taken)
        transaction.topic(TOPIC).acknowledge_subscription("c", "s", read)
        transaction.queue(QUEUE).add_message(Message("new"))
        transaction.topic(TOPIC).add_message(Message("news"))
        assert transaction.prepare()
        assert [message.body for message in subscribed.recover()] == ["unread"]

    with activemq() as broker:
        assert [m["body"]["v"] for m in broker.browse(QUEUE)] == ["left"]
        broker.xa_finish("all", outcome)

    with open_jdbcstore() as store:
        assert everything(store) == tuple(expected(outcome))
        assert store.xa.recover() == []
        with pytest.raises(TransactionNotFound):
            store.xa.commit(branch("all"))
    with activemq() as broker:
        queue, topic = expected(outcome)
        assert [m["body"]["v"] for m in broker.receive(QUEUE, 2)] == queue
        assert [m["body"]["v"] for m in broker.durable_receive(TOPIC, "c", "s", 2)] == topic
