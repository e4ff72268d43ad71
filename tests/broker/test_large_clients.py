"""Large messages of clients that are wrong, or that have to wait."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from jdbcstore import Destination, Store
from jdbcstore.broker.openwire.commands import Type
from jdbcstore.broker.security import Principal, Security
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.ids import ConnectionId, LocalTransactionId
from jdbcstore.message.openwire import decode
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.testing.polling import wait_until
from tests.support.broker.openwire.client import Client as OpenWireClient
from tests.support.broker.openwire.serving import Served
from tests.support.broker.stomp.serving import Client
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql")

QUEUE = Destination.queue("Q")
LIMIT = 64 * 1024
BODY = bytes(range(256)) * 5000 + b"\0end"


def serving(store: Store, *policies: PolicyEntry, **options: Any) -> Served:
    return Served(store, *policies, uri="auto://127.0.0.1:0", min_large_message_size=LIMIT, **options)


def stored(database: Database) -> int:
    [[pieces]] = database.rows("SELECT COUNT(*) FROM JDBCSTORE_PIECES")
    return int(pieces)


def test_a_text_whose_last_character_is_cut_off_is_kept(store: Store) -> None:
    """As a small one is: a STOMP client cannot have it, and it is a dead letter then."""
    with serving(store) as served, OpenWireClient(served.openwire_port, speaks_first=True) as client:
        for end in (b"\xe9", b"\xc3"):
            frame = client.message(QUEUE, "x" * 300_000 + "!")
            client.socket.sendall(frame.replace(b"x!", b"x" + end))
            client.answer(decode(frame).command_id, Type.RESPONSE)
        messages = [*store.queue("Q").recover()]
        assert [body_in_pieces(message) is not None for message in messages] == [True, True]
        del messages
        with Client(served.openwire_port) as stomp:
            stomp.subscribe("/queue/Q")
            wait_until(lambda: store.queue("ActiveMQ.DLQ").message_count() == 2)


def test_a_raw_nul_in_a_text_is_not_the_end_of_a_frame(store: Store) -> None:
    """Not modified UTF-8, but a client may write it, and forge frames of a STOMP consumer otherwise."""
    forged = "x" * 300_000 + "!\nMESSAGE\ndestination:/queue/Z\nmessage-id:1\nsubscription:0\n\nforged"
    with serving(store) as served, OpenWireClient(served.openwire_port, speaks_first=True) as client:
        frame = client.message(QUEUE, forged)
        client.socket.sendall(frame.replace(b"x!", b"x\0"))
        client.answer(decode(frame).command_id, Type.RESPONSE)
        with Client(served.openwire_port) as stomp:
            stomp.subscribe("/queue/Q")
            assert stomp.expect("MESSAGE").body == forged.replace("!", "\0").encode()
            assert stomp.has_nothing_more()


class OnlyQ(Security):
    async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
        return Principal("ann", *[[QUEUE]] * 3)


def test_nothing_is_stored_of_what_may_not_be_sent(store: Store, database: Database) -> None:
    transaction = LocalTransactionId(ConnectionId("ID:one"), 1)
    with (
        serving(store, security=OnlyQ()) as served,
        OpenWireClient(served.openwire_port, speaks_first=True, connection_id="ID:one") as client,
    ):
        client.send(QUEUE, BODY)
        for fields in ({}, {"transaction_id": transaction}):
            if fields:
                client.request(Type.TRANSACTION_INFO, operation=0, transaction_id=transaction)
            frame = client.message(Destination.queue("OTHER"), BODY, **fields)
            client.socket.sendall(frame)
            error = client.answer(decode(frame).command_id, Type.EXCEPTION_RESPONSE)["error"]
            assert "'ann' is not authorized to send to queue://OTHER" in error.text
            assert stored(database) == 3
        assert client.refused(Type.TRANSACTION_INFO, operation=2, transaction_id=transaction)


@pytest.mark.backends("sqlite")
def test_a_sender_is_not_read_while_its_messages_wait(store: Store, database: Database) -> None:
    """Where there is no room, it has no more bodies written than small messages may be under way."""
    policy = PolicyEntry(queue="Q", memory_limit=10_000, pending_queue_policy="vmQueueCursor")
    count = 8
    with (
        serving(store, policy) as served,
        Client(served.openwire_port) as client,
        Client(served.openwire_port) as sender,
    ):
        client.send("/queue/R", BODY)
        for _ in range(50):
            client.write("SEND", {"destination": "/queue/Q", "persistent": "false"}, b"x" * 2000)
        client.request("BEGIN", {"transaction": "t"})  # after all of these
        head = {"destination": "/queue/Q", "content-length": str(2 * len(BODY)), "receipt": "r"}

        def send() -> None:
            for _ in range(count):
                sender.write("SEND", head, BODY * 2)

        def is_full() -> bool:
            return any(one.replies.full for one in served.openwire.clients)

        thread = threading.Thread(target=send)
        thread.start()
        wait_until(lambda: served.call(is_full) or stored(database) == 3 + 5 * count)
        assert stored(database) == 3 + 5 * 4
        client.subscribe("/queue/Q")
        bodies = [frame.body for frame in client.messages(50 + count)]
        thread.join()
        assert [sender.expect("RECEIPT").command for _ in range(count)]
        assert bodies.count(BODY * 2) == count


@pytest.mark.backends("sqlite")
def test_a_rejection_that_fails_is_logged_once(
    store: Store, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged message that cannot become a dead letter either stays, and asyncio has nothing to report."""
    policy = PolicyEntry(queue="Q", memory_limit=100)  # so that it is not in memory any more
    with serving(store, policy) as served, Client(served.openwire_port) as client:
        client.send("/queue/Q", BODY)
        database.execute("DELETE FROM JDBCSTORE_PIECES")
        database.execute(
            "CREATE TRIGGER refusing BEFORE INSERT ON ACTIVEMQ_MSGS"
            " BEGIN SELECT RAISE(ABORT, 'no dead letters'); END"
        )
        client.subscribe("/queue/Q", ack="client")
        wait_until(lambda: "no dead letters" in caplog.text)
        served.call(gc.collect)
    assert "never retrieved" not in caplog.text
    assert store.queue("Q").message_count() == 1
