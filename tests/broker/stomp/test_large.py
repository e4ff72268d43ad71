"""Large bodies over STOMP: received, stored, delivered and acknowledged in pieces."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from jdbcstore import JdbcStore, Store
from jdbcstore.broker.stomp.frames import Version, encode
from jdbcstore.broker.transport import connection
from jdbcstore.broker.transport.output import ClientOutput
from jdbcstore.broker.turns import TurnLoop
from jdbcstore.errors import LockLost, StoreUnavailable
from jdbcstore.message.openwire.pieces import LargeBody, body_in_pieces
from jdbcstore.testing import OpenStore
from jdbcstore.testing.polling import wait_until
from tests.support.broker.stomp.serving import Client, Served, talking
from tests.support.broker.stomp.websocket import WebSocketClient
from tests.support.databases import Database

pytestmark = pytest.mark.backends("sqlite", "postgresql")

QUEUE = "/queue/Q"
BODY = bytes(range(256)) * 5000 + b"\0end"
LIMIT = 64 * 1024
TEXT = "zażółć\N{GRINNING FACE}\0" * 60_000


@contextlib.contextmanager
def serving(store: Store, **options: object) -> Iterator[tuple[Served, Client]]:
    with talking(store, min_large_message_size=LIMIT, **options) as both:
        yield both


def stored(database: Database) -> int:
    [[pieces]] = database.rows("SELECT COUNT(*) FROM JDBCSTORE_PIECES")
    return int(pieces)


@pytest.mark.parametrize("version", [*Version])
def test_it_goes_through_in_pieces(store: Store, database: Database, version: Version) -> None:
    with (
        Served(store, min_large_message_size=LIMIT) as served,
        Client(served.port, version) as client,
    ):
        client.send(QUEUE, BODY, custom="a:b", priority="7")
        client.send(QUEUE, "small")
        (message, small) = store.queue("Q").recover()
        assert message.body_size == len(BODY)
        assert body_in_pieces(message) is not None
        assert small.body == "small"
        client.subscribe(QUEUE, ack="client-individual")
        frame, other = client.messages(2)
        assert frame.body == BODY
        assert {**frame.headers, "content-length": str(len(BODY)), "custom": "a:b"} == frame.headers
        assert other.body == b"small"
        for one in (frame, other):
            names = {"message-id": one.headers["message-id"], "subscription": "0"}
            client.request("ACK", {"id": one.headers["ack"]} if version is Version.V1_2 else names)
    assert store.queue("Q").message_count() == 0
    del message
    gc.collect()
    store.cleanup()
    assert stored(database) == 0


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_mode_auto_acknowledges_at_the_end(store: Store, persistent: str, database: Database) -> None:
    with serving(store) as (served, client), Client(served.port) as sender:
        client.subscribe(QUEUE)
        for _ in range(3):
            sender.send(QUEUE, BODY, persistent=persistent)
        assert [frame.body for frame in client.messages(3)] == [BODY] * 3
        wait_until(lambda: store.queue("Q").message_count() == 0)
    gc.collect()
    store.cleanup()
    assert stored(database) == 0


def test_a_text_is_one_for_both_protocols(store: Store) -> None:
    body = TEXT.encode()
    with serving(store) as (_, client):
        client.send(QUEUE, body, amq_msg_type="text")
        client.send(QUEUE, ("ż" * 100_000).encode(), amq_msg_type="text")
        client.subscribe(QUEUE)
        assert [frame.body for frame in client.messages(2)] == [body, ("ż" * 100_000).encode()]
        large = [body_in_pieces(message) for message in store.queue("Q").recover()]
        assert [one is not None for one in large] in ([True, True], [True], [])
        client.write(
            "SEND",
            {"destination": QUEUE, "content-length": "1000000", "amq-msg-type": "text"},
            b"\xff" * 10**6,
        )
        assert "not UTF-8" in client.expect("ERROR").headers["message"]


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    with serving(store) as (_, client):
        for _ in range(2):
            client.request("BEGIN", {"transaction": "t"})
            client.send(QUEUE, BODY, transaction="t")
            client.send(QUEUE, "small", transaction="t")
            assert store.queue("Q").message_count() == 0
            client.request("ABORT", {"transaction": "t"})
        client.request("BEGIN", {"transaction": "t"})
        client.send(QUEUE, BODY, transaction="t")
        client.request("COMMIT", {"transaction": "t"})
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body == BODY


def test_a_sender_that_dies_leaves_nothing(store: Store, database: Database) -> None:
    with serving(store) as (served, client):
        client.send(QUEUE, BODY)
        with Client(served.port) as dying:
            head = f"SEND\ndestination:{QUEUE}\ncontent-length:9000000\n\n".encode()
            dying.socket.sendall(head + BODY * 2)
            wait_until(lambda: stored(database) > 3)
        wait_until(lambda: served.connector.connections == 1)

        def is_removed() -> bool:
            gc.collect()
            store.cleanup()
            return stored(database) == 3

        wait_until(is_removed)
        assert store.queue("Q").message_count() == 1


def test_it_survives_the_broker(store: Store, open_store: OpenStore) -> None:
    with serving(store) as (_, client):
        client.send(QUEUE, BODY)
        client.subscribe(QUEUE, ack="client")
        assert client.expect("MESSAGE").body == BODY
    store.close()
    with serving(open_store()) as (_, client):
        client.subscribe(QUEUE, ack="client")
        frame = client.expect("MESSAGE")
        assert (frame.body, frame.headers["redelivered"]) == (BODY, "true")


def test_what_may_not_be_sent_is_ignored(store: Store) -> None:
    with serving(store) as (_, client):
        client.write(
            "SEND", {"destination": "/queue/", "content-length": str(len(BODY)), "receipt": "r"}, BODY
        )
        error = client.expect("ERROR")
        assert error.headers["receipt-id"] == "r"
        client.send(QUEUE, BODY)
        assert store.queue("Q").message_count() == 1


def test_a_websocket_takes_it_whole_and_gets_pieces(store: Store) -> None:
    text = b"a\0b\xe2\x82\xac" * 200_000
    with serving(store) as (_, client):
        client.send(QUEUE, BODY)
        client.send(QUEUE, text, **{"amq-msg-type": "text", "content-length": str(len(text))})
    with (
        Served(store, uri="ws://127.0.0.1:0", min_large_message_size=LIMIT) as served,
        WebSocketClient(served.port) as client,
    ):
        headers = {"destination": QUEUE, "persistent": "true", "content-length": str(len(BODY))}
        frame = encode("SEND", headers.items(), Version.V1_2, BODY[::-1])
        for part in (frame[:LIMIT], frame[LIMIT:]):  # else no reader would see that it is large
            client.socket.sendall(part)
        client.subscribe(QUEUE)
        for body, kind in ((BODY, bytes), (text, str), (BODY[::-1], bytes)):
            assert client.expect("MESSAGE").body == body
            assert isinstance(client.socket.received[-1], kind)
        client.send("/queue/R", "after")
        client.subscribe("/queue/R", "1")
        assert client.expect("MESSAGE").body == b"after"


def test_dead_letters_keep_it(store: Store) -> None:
    with serving(store) as (_, client):
        client.send(QUEUE, BODY, expires="1")
        client.subscribe("/queue/ActiveMQ.DLQ")
        client.subscribe(QUEUE, "1")
        frame = client.expect("MESSAGE")
        assert (frame.body, frame.headers["original-destination"]) == (BODY, QUEUE)


def test_replies_wait_behind_it(store: Store) -> None:
    """A client that does not read a large message gets the other frames after it, in their order."""
    with serving(store) as (_, client):
        client.send(QUEUE, BODY * 4)
        client.write("SUBSCRIBE", {"id": "0", "destination": QUEUE, "ack": "client"})
        for number in range(20):
            client.write("SEND", {"destination": "/queue/R", "receipt": str(number)}, b"x")
        frames = [client.read() for _ in range(21)]
        assert [f.headers["receipt-id"] for f in frames if f.command == "RECEIPT"] == [*map(str, range(20))]
        assert [f.body for f in frames if f.command == "MESSAGE"] == [BODY * 4]


def test_nothing_is_written_into_the_middle(store: Store) -> None:
    """Heart-beats and receipts come behind a large message, whoever is slow."""
    with (
        serving(store) as (served, client),
        Client(served.port, heart_beat="0,100") as slow,
        Client(served.port) as sender,
    ):
        slow.write("SUBSCRIBE", {"id": "0", "destination": QUEUE, "ack": "client"})
        for number in range(6):
            sender.send(QUEUE, BODY * (number % 2 + 1))
            slow.write("SEND", {"destination": "/queue/R", "receipt": str(number)}, b"x")
        frames = [frame for frame in (slow.read() for _ in range(12)) if frame is not None]
        assert sorted(len(frame.body) for frame in frames) == [0] * 6 + [len(BODY)] * 3 + [2 * len(BODY)] * 3
        assert client.has_nothing_more()


def test_many_at_once(store: Store, database: Database) -> None:
    """Several clients send and receive large and small messages; every one arrives whole."""
    with serving(store) as (served, client):

        def send(name: str) -> None:
            with Client(served.port) as sender:
                for number in range(5):
                    sender.send(QUEUE, name.encode() * (400_000 + number))
                    sender.send(QUEUE, name)

        threads = [threading.Thread(target=send, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        client.subscribe(QUEUE, ack="client-individual")
        frames = client.messages(30)
        for frame in frames:
            assert frame.body == frame.body[:1] * len(frame.body)
            client.request("ACK", {"id": frame.headers["ack"]})
        for thread in threads:
            thread.join()
        expected = sorted([400_000 + number for number in range(5)] * 3 + [1] * 15)
        assert sorted(len(frame.body) for frame in frames) == expected
    gc.collect()
    store.cleanup()
    assert stored(database) == 0


def test_copies_share_it(store: Store, database: Database) -> None:
    """A composite destination, and a virtual topic: each has its message, and the body is there once."""
    with serving(store) as (served, client):
        client.subscribe("/queue/Consumer.A.VirtualTopic.T", "0", ack="client")
        client.subscribe("/queue/Consumer.B.VirtualTopic.T", "1", ack="client")
        with Client(served.port) as sender:
            sender.send("/topic/VirtualTopic.T", BODY)
            sender.send("/queue/Consumer.A.VirtualTopic.T,/queue/Consumer.B.VirtualTopic.T", BODY)
        frames = client.messages(4)
        assert [frame.body for frame in frames] == [BODY] * 4
        assert stored(database) == 6
        for frame in frames:
            client.request("ACK", {"id": frame.headers["ack"]})
    gc.collect()
    store.cleanup()
    assert stored(database) == 0


@pytest.mark.parametrize("piece", [0, 1])
def test_an_outage_of_the_database_is_waited_for(
    store: Store, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, JdbcStore)
    failures, read = [StoreUnavailable("the database restarts")] * 3, store.large_bodies.read

    def fails_at_first(body: LargeBody, number: int) -> bytes:
        if number == piece and failures:
            raise failures.pop()
        return read(body, number)

    with serving(store) as (_, client):
        client.send(QUEUE, BODY)
        monkeypatch.setattr(store.large_bodies, "read", fails_at_first)
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body == BODY
        assert not failures


def test_what_cannot_be_read_now_is_not_rejected(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(store, JdbcStore)

    def read(*_: object) -> bytes:
        raise LockLost("another process is the master")

    with serving(store) as (served, client):
        client.send(QUEUE, BODY)
        with monkeypatch.context() as patch:
            patch.setattr(store.large_bodies, "read", read)
            client.subscribe(QUEUE, ack="client")
            assert client.ends()
        with Client(served.port) as another:
            another.subscribe(QUEUE, ack="client")
            assert another.expect("MESSAGE").body == BODY


def damage(piece: int | None) -> str:
    if piece is None:  # the table of messages was copied alone
        return "DROP TABLE JDBCSTORE_PIECES"
    return f"DELETE FROM JDBCSTORE_PIECES WHERE PIECE = {piece}"


@pytest.mark.parametrize("piece", [None, 0, 1, 2])
@pytest.mark.parametrize("kind", [Client, WebSocketClient])
def test_a_damaged_one_is_rejected(
    store: Store, piece: int | None, kind: type[Client], database: Database
) -> None:
    """Also if that is seen in the middle: else it would end each connection that consumes it."""
    with serving(store) as (_, client):
        client.send(QUEUE, BODY)
        client.send(QUEUE, "small")
    database.execute(damage(piece))
    scheme = "ws" if kind is WebSocketClient else "stomp"
    with Served(store, uri=f"{scheme}://127.0.0.1:0") as served:
        with kind(served.port) as first:
            first.subscribe(QUEUE, ack="client")
            if piece:
                assert first.ends()
            else:
                assert first.expect("MESSAGE").body == b"small"
        with kind(served.port) as second:
            second.subscribe(QUEUE)
            assert second.expect("MESSAGE").body == b"small"
        wait_until(lambda: store.queue("ActiveMQ.DLQ").message_count() == 1)


def test_damaged_properties_are_rejected(store: Store, database: Database) -> None:
    with serving(store) as (_, client):
        client.send(QUEUE, BODY, damaged="x" * 50)
        client.send(QUEUE, "small")
        number, blob = min(database.rows("SELECT ID, MSG FROM ACTIVEMQ_MSGS"))
        at = bytes(blob).index(b"x" * 50)
        damaged = bytes(blob)[: at - 3] + b"\x77" + bytes(blob)[at - 2 :]  # the type of the property
        database.execute("UPDATE ACTIVEMQ_MSGS SET MSG = :msg WHERE ID = :id", msg=damaged, id=number)
    with serving(store) as (_, client):
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body == b"small"
        assert client.has_nothing_more()


def test_a_client_that_ends_gets_the_rest_first(store: Store) -> None:
    with serving(store) as (_, client):
        client.send(QUEUE, BODY * 8)
        client.subscribe(QUEUE, ack="client")
        assert client.socket.recv(1, socket.MSG_PEEK)  # it has begun
        client.write("DISCONNECT", {"receipt": "end"})
        assert client.expect("MESSAGE").body == BODY * 8
        assert client.expect("RECEIPT").headers["receipt-id"] == "end"
        assert client.ends()


@pytest.mark.parametrize("end", ["DISCONNECT", "idle", "ERROR"])
def test_a_client_that_reads_no_further_is_cut_off(
    store: Store, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_END_TIMEOUT", 0.2)
    with serving(store, idle_timeout=1.0 if end == "idle" else 0.0) as (served, client):
        client.send(QUEUE, BODY * 16)
        client.subscribe(QUEUE, ack="client")
        assert client.socket.recv(1, socket.MSG_PEEK)  # it has begun
        if end != "idle":
            client.write(end)
        wait_until(lambda: not served.connector.connections, 30)
        with Client(served.port) as another:
            another.subscribe(QUEUE, ack="client")
            assert another.expect("MESSAGE").body == BODY * 16


def test_a_client_is_not_read_while_many_replies_wait_behind_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, JdbcStore)
    go_on, read = threading.Event(), store.large_bodies.read

    def waits(body: LargeBody, number: int) -> bytes:
        assert number == 0 or go_on.wait(60)
        return read(body, number)

    with serving(store) as (served, client):
        client.send(QUEUE, BODY)
        monkeypatch.setattr(store.large_bodies, "read", waits)
        client.subscribe(QUEUE, ack="client")
        [one] = served.connector._connections
        assert isinstance(one, connection.ClientConnection)
        wait_until(lambda: one.output.is_streaming)
        receipts = [f"{number:09000}" for number in range(600)]
        for receipt in receipts:
            client.write("BEGIN", {"transaction": "t", "receipt": receipt})
            client.write("ABORT", {"transaction": "t"})
        try:
            wait_until(lambda: not one.reads, 20)
        finally:
            go_on.set()
        assert client.expect("MESSAGE").body == BODY
        assert [client.expect("RECEIPT").headers["receipt-id"] for _ in receipts] == receipts


def test_what_is_written_meanwhile_comes_behind() -> None:
    """Whether it waits for the end of the loop's turn, or is to be written at once."""
    written: list[bytes] = []

    class Wire(asyncio.Transport):
        """Takes all at once."""

        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append(bytes(data))

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    async def write() -> None:
        output, go_on = ClientOutput(), asyncio.Event()
        output.open(Wire())

        async def parts() -> AsyncIterator[bytes]:
            yield b"begin "
            await go_on.wait()
            yield b"end "

        output.write(b"before ")
        output.stream(parts())
        for text in (b"one ", b"two "):
            output.write(text)
            await asyncio.sleep(0)
            output.write_now(b"at once ")
            await asyncio.sleep(0)
        output.stream(parts())
        output.write(b"last")
        go_on.set()
        while not written[-1].endswith(b"last"):
            await asyncio.sleep(0)

    loop = TurnLoop()
    loop.run_until_complete(write())
    loop.close()
    assert b"".join(written) == b"before begin end one at once two at once begin end last"
