"""Large bodies over OpenWire: received, stored, delivered and acknowledged in pieces."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import pytest

from jdbcstore import Destination, JdbcStore, Message, Store
from jdbcstore.errors import LockLost
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.testing import OpenStore
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire.client import Client as OpenWireClient
from tests.support.broker.openwire.jms import Jms, take
from tests.support.broker.openwire.serving import Served
from tests.support.broker.stomp.serving import Client
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql")

QUEUE = Destination.queue("Q")
LIMIT = 64 * 1024
BODIES: list[Any] = [
    bytes(range(256)) * 5000 + b"\0end",
    "zażółć\N{GRINNING FACE}\0" * 60_000,
    {"one": "x" * 900_000, "two": 2},
]


def serving(store: Store, **options: Any) -> Served:
    return Served(store, uri="auto://127.0.0.1:0", min_large_message_size=LIMIT, **options)


def stored(database: Database) -> int:
    [[pieces]] = database.rows("SELECT COUNT(*) FROM JDBCSTORE_PIECES")
    return int(pieces)


@pytest.mark.parametrize("version", [9, 12])
def test_every_body_goes_through_in_pieces(store: Store, version: int, database: Database) -> None:
    with serving(store) as served, OpenWireClient(served.openwire_port, version, speaks_first=True) as client:
        for body in BODIES:
            client.send(QUEUE, body, properties={"a": "b"}, correlation_id="b")
        client.send(QUEUE, "small")
        messages = [*store.queue("Q").recover()]
        assert [body_in_pieces(message) is not None for message in messages] == [True, True, True, False]
        del messages
        consumer = client.consume(QUEUE)
        received = [client.dispatched() for _ in range(4)]
        assert [(one.body, count) for one, count in received] == [(body, 0) for body in [*BODIES, "small"]]
        assert all(one.correlation_id == one.properties["a"] == "b" for one, _ in received[:3])
        client.acknowledge(consumer, received[0][0], received[-1][0], count=4)
        del received
    assert store.queue("Q").message_count() == 0
    gc.collect()
    store.cleanup()
    assert stored(database) == 0


def test_a_compressed_body_is_inflated_for_stomp(store: Store) -> None:
    noise = "".join(chr(32 + (n * 7919 + n // 89) % 9000) for n in range(400_000))
    with serving(store) as served, OpenWireClient(served.openwire_port, speaks_first=True) as client:
        for body in (noise, noise.encode()):
            client.send(QUEUE, body, compressed=True)
        messages = [*store.queue("Q").recover()]
        assert all(message.compressed and body_in_pieces(message) for message in messages)
        with Client(served.openwire_port) as stomp:
            stomp.subscribe("/queue/Q")
            assert [frame.body for frame in stomp.messages(2)] == [noise.encode()] * 2
    wait_until(lambda: store.queue("Q").message_count() == 0)


def test_from_one_protocol_to_the_other(store: Store) -> None:
    with (
        serving(store) as served,
        OpenWireClient(served.openwire_port, speaks_first=True) as client,
        Client(served.openwire_port) as stomp,
    ):
        stomp.send("/queue/Q", BODIES[0])
        stomp.send("/queue/Q", BODIES[1].encode(), amq_msg_type="text")
        client.consume(QUEUE)
        assert [client.dispatched()[0].body for _ in range(2)] == BODIES[:2]
        for body in BODIES:
            client.send(Destination.queue("R"), body)
        stomp.subscribe("/queue/R")
        assert [frame.body for frame in stomp.messages(3)] == [BODIES[0], BODIES[1].encode(), b""]


def test_a_transaction_and_a_rejected_message(store: Store, open_store: OpenStore) -> None:
    with serving(store) as served, OpenWireClient(served.openwire_port, speaks_first=True) as client:
        client.send(QUEUE, BODIES[0])
        consumer = client.consume(QUEUE)
        message, _ = client.dispatched()
        client.acknowledge(consumer, message, kind=1)  # poison
        dead = client.consume(Destination.queue("ActiveMQ.DLQ"))
        assert dead != consumer
        letter, _ = client.dispatched()
        assert (letter.body, letter.original_destination) == (BODIES[0], QUEUE)
    store.close()
    with serving(open_store()) as served, OpenWireClient(served.openwire_port, speaks_first=True) as client:
        client.consume(Destination.queue("ActiveMQ.DLQ"))
        letter, count = client.dispatched()
        assert (letter.body, count) == (BODIES[0], 1)


def test_a_durable_subscription_keeps_it(store: Store, database: Database) -> None:
    topic = Destination.topic("T")
    store.topic("T").subscribe("one", "s")
    store.topic("T").subscribe("two", "s")
    with serving(store) as served, OpenWireClient(served.openwire_port, speaks_first=True) as client:
        client.send(topic, BODIES[0])
        subscription = store.topic("T").subscription("one", "s")
        subscription.acknowledge(*subscription.recover())
        gc.collect()
        store.cleanup()
        assert stored(database) == 3
        with Client(served.openwire_port, client_id="two") as stomp:
            stomp.subscribe("/topic/T", activemq__subscriptionName="s", ack="client")
            frame = stomp.expect("MESSAGE")
            assert frame.body == BODIES[0]
            stomp.request("ACK", {"id": frame.headers["ack"]})
        gc.collect()
        store.cleanup()
        assert stored(database) == 0


def test_a_sender_that_dies_leaves_nothing(store: Store, database: Database) -> None:
    with serving(store) as served:
        with OpenWireClient(served.openwire_port, speaks_first=True) as client:
            client.send(QUEUE, BODIES[0])
            frame = client.message(QUEUE, BODIES[0] * 4)
            client.socket.sendall(frame[: len(frame) // 2])
            wait_until(lambda: stored(database) > 3)

        def is_removed() -> bool:
            gc.collect()
            store.cleanup()
            return stored(database) == 3

        wait_until(is_removed)
        assert store.queue("Q").message_count() == 1


def test_what_cannot_be_read_now_is_not_rejected(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(store, JdbcStore)

    def read(*_: object) -> bytes:
        raise LockLost("another process is the master")

    with serving(store) as served:
        with (
            OpenWireClient(served.openwire_port, speaks_first=True) as client,
            monkeypatch.context() as patch,
        ):
            client.send(QUEUE, BODIES[0])
            patch.setattr(store.large_bodies, "read", read)
            client.consume(QUEUE)
            assert client.frame() is None
        with OpenWireClient(served.openwire_port, speaks_first=True) as client:
            client.consume(QUEUE)
            assert client.dispatched()[0].body == BODIES[0]


@pytest.mark.parametrize("piece", [None, 0, 2])
def test_a_damaged_one_is_rejected(store: Store, piece: int | None, database: Database) -> None:
    """Also if that is seen in the middle: else it would end each connection that consumes it."""
    with serving(store) as served:
        with OpenWireClient(served.openwire_port, speaks_first=True) as client:
            client.send(QUEUE, BODIES[0])
            client.send(QUEUE, "small")
            if piece is None:  # the table of messages was copied alone
                database.execute("DROP TABLE JDBCSTORE_PIECES")
            else:
                database.execute(f"DELETE FROM JDBCSTORE_PIECES WHERE PIECE = {piece}")
            client.consume(QUEUE)
            if piece:
                with contextlib.suppress(ConnectionError):
                    assert client.frame() is None
            else:
                assert client.dispatched()[0].body == "small"
        with OpenWireClient(served.openwire_port, speaks_first=True) as client:
            client.consume(QUEUE)
            assert client.dispatched()[0].body == "small"
        wait_until(lambda: store.queue("ActiveMQ.DLQ").message_count() == 1)


def test_the_java_client(store: Store, java_client: None) -> None:  # noqa: ARG001
    with serving(store) as served, Jms(served.url) as jms:
        jms.send("Q", BODIES[1])
        [message] = store.queue("Q").recover()
        assert body_in_pieces(message) is not None
        assert str(take(jms.consumer("Q")).getText()) == BODIES[1]


def test_a_message_is_compared_without_its_body(store: Store) -> None:
    with serving(store) as served, OpenWireClient(served.openwire_port, speaks_first=True) as client:
        client.send(QUEUE, BODIES[0])
        [one], [other] = store.queue("Q").recover(), store.queue("Q").recover()
        assert isinstance(one, Message)
        assert one == other
        assert one != one.replace(body=b"")
