"""An ActiveMQ that reads a message whose body is in pieces: it stops there, and does not misread it."""

from __future__ import annotations

import pytest

from jdbcstore import BodyType, Message
from jdbcstore.message.openwire.pieces import with_body_in_pieces
from jdbcstore.stores.jdbc.store import JdbcStore
from tests.interop.conftest import OpenStore, StartBroker
from tests.support.interop.activemq import VERSION

pytestmark = pytest.mark.backends("postgresql")


def test_it_stops_at_such_a_row(activemq: StartBroker, open_jdbcstore: OpenStore) -> None:
    with open_jdbcstore() as store:
        assert isinstance(store, JdbcStore)
        body = store.large_bodies.begin()
        store.large_bodies.add(body, 0, b"content")
        body.end(7)
        queue = store.queue("LARGE")
        queue.add_message(Message("first"))
        queue.add_message(with_body_in_pieces(Message(), BodyType.BYTES, body))
        queue.add_message(Message("last"))
        store.queue("OTHER").add_message(Message("other"))

    with activemq() as broker:
        [other] = broker.receive("queue://OTHER", 1)
        assert other["body"]["v"] == "other"
        received = broker.receive("queue://LARGE", 3, timeout_ms=2000)
        assert [one["body"]["v"] for one in received] == ["first"]
        assert VERSION or "Unknown data type" in broker.log_end()  # the log of others goes nowhere

    with open_jdbcstore() as store:
        assert isinstance(store, JdbcStore)
        large, last = store.queue("LARGE").recover()
        assert b"".join(store.large_bodies.pieces_of(large)) == b"content"
        assert last.body == "last"
        store.queue("LARGE").remove_all_messages()
    with activemq() as broker:
        broker.send("queue://LARGE", [{"kind": "text", "body": {"t": "string", "v": "new"}}])
        assert len(broker.receive("queue://LARGE", 1)) == 1
