"""Messages whose head a client has sent before: they are read and stored without the way of the others."""

from __future__ import annotations

import selectors
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import pytest

from jdbcstore import Destination, Message, Store
from jdbcstore.abc import KeepsLargeBodies
from jdbcstore.broker.security import Principal
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.broker.stomp.session import StompSession
from jdbcstore.broker.turns import TurnLoop
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.message.openwire.pieces import body_in_pieces
from jdbcstore.testing import OpenStore
from jdbcstore.util.core import in_use
from tests.support.broker.stomp.serving import PATIENCE, Client, Served, talking
from tests.support.calls import Calls
from tests.support.databases import Database
from tests.support.faults.blocking import writes_held

QUEUE = "/queue/Q"
MOST_CALLS = 60
"""Functions of jdbcstore that a SEND with a receipt calls, from its bytes to its receipt."""


def frame(number: int, body: bytes | None = None, /, **headers: str) -> bytes:
    """A SEND with a receipt that has a head like others, unless headers make it another one."""
    content = b"%03d" % number if body is None else body
    more = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    head = f"SEND\ndestination:{QUEUE}\npersistent:true\nreceipt:r-{number}\n{more}"
    return f"{head}content-length:{len(content)}\n\n".encode() + content + b"\0"


def receipts(client: Client, *numbers: int) -> None:
    """Wait for the receipts, in any order."""
    found = {client.expect("RECEIPT").headers["receipt-id"] for _ in numbers}
    assert found == {f"r-{number}" for number in numbers}


def enter(client: Client) -> None:
    """Send the messages after which the next one needs no decision."""
    for number in range(2):
        client.socket.sendall(frame(number))
        receipts(client, number)


@contextmanager
def read_in_full(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The commands of the frames that go the general way."""
    commands: list[str] = []
    handle = StompSession.handle

    def noted(self: StompSession, one: object) -> None:
        commands.append(getattr(one, "command", "?"))
        handle(self, one)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(StompSession, "handle", noted)
        yield commands


def bodies(store: Store) -> list[object]:
    return [message.body for message in store.queue("Q").recover()]


@pytest.mark.backends("memory", "sqlite", "postgresql")
def test_a_head_that_comes_again_is_not_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with read_in_full(monkeypatch) as commands, talking(store) as (_, client):
        enter(client)
        commands.clear()
        client.socket.sendall(b"".join(map(frame, range(2, 40))) + b"\n\n")
        receipts(client, *range(2, 40))
        client.socket.sendall(b"\n" + frame(40, b"\0any\n\nbytes"))
        receipts(client, 40)
        assert commands == []
        client.subscribe(QUEUE)
        received = client.messages(41)
    assert [one.body for one in received] == [*(b"%03d" % number for number in range(40)), b"\0any\n\nbytes"]
    producers, numbers = zip(*(one.headers["message-id"].rsplit(":", 1) for one in received), strict=True)
    assert len({*producers}) == 1
    assert [*map(int, numbers)] == [*range(1, 42)]
    assert {tuple(one.headers) for one in received} == {tuple(received[0].headers)}


@pytest.mark.backends("memory")
@pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])
@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_the_same_message_either_way(
    store: Store, version: Version, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"custom": "ż*[a]", "correlation_id": "corr", "priority": "7", "expires": "9000000000000"}
    with (
        read_in_full(monkeypatch) as commands,
        Served(store) as served,
        Client(served.port, version) as client,
    ):
        for number in range(3):
            one = frame(number, b"body", **more)
            client.socket.sendall(one if kind == "bytes" else one.replace(b"content-length:4\n", b""))
            receipts(client, number)
        assert commands == ["CONNECT", "SEND", "SEND"]
    first, _, last = store.queue("Q").recover()
    assert isinstance(first.body, str if kind == "text" else bytes)
    assert first.message_id is not None
    assert last.message_id is not None
    assert first.message_id.producer_id == last.message_id.producer_id
    assert last.timestamp_ms == last.broker_in_time_ms > 0
    same = {"message_id": first.message_id, "timestamp_ms": 1, "broker_in_time_ms": 1, "sequence": 1}
    assert first.replace(**same) == last.replace(**same)


@pytest.mark.backends("memory")
def test_a_head_says_what_each_message_has_of_its_own(store: Store) -> None:
    sizes = (3, 3, 5)
    with talking(store) as (_, client):
        for more in ({"timestamp": "7"}, {"JMSTimestamp": "7"}, {"amq_msg_type": "text"}):
            for number, size in enumerate(sizes):
                client.socket.sendall(frame(number, b"x" * size, **more))
                receipts(client, number)
    found = [*store.queue("Q").recover()]
    assert [one.timestamp_ms for one in found[:6]] == [7] * 6
    assert [one.properties["content-length"] for one in found[6:]] == [*map(str, sizes)]


@pytest.mark.backends("memory")
def test_a_head_that_is_refused_is_not_taken_for_the_one_before(store: Store) -> None:
    with talking(store) as (_, client):
        enter(client)
        for number in range(2, 5):
            client.socket.sendall(frame(number, priority="high"))
            assert client.expect("ERROR").headers["receipt-id"] == f"r-{number}"
        client.socket.sendall(frame(5))
        receipts(client, 5)
    assert bodies(store) == [b"000", b"001", b"005"]


@pytest.mark.backends("memory")
def test_a_text_needs_no_length(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with read_in_full(monkeypatch) as commands, talking(store) as (_, client):
        for body in (b"one", b"two"):
            client.request("SEND", {"destination": QUEUE}, body)
        commands.clear()
        client.request("SEND", {"destination": QUEUE}, b"three")
        assert commands == []
        client.request("SEND", {"destination": "/topic/T"}, b"first")
        client.request("SEND", {"destination": QUEUE}, b"four")
        client.request("SEND", {"destination": QUEUE}, b"five")
        commands.clear()
        client.write("SEND", {"destination": QUEUE, "receipt": "bad"}, b"\xff")
        assert client.expect("ERROR").headers["receipt-id"] == "bad"
        assert commands == ["SEND"]
        client.subscribe(QUEUE)
        assert [one.body for one in client.messages(5)] == [b"one", b"two", b"three", b"four", b"five"]


@pytest.mark.backends("memory")
@pytest.mark.parametrize("size", [1, 7, 64, 1000, 100_000])
def test_no_byte_is_lost_where_a_frame_goes_the_general_way(store: Store, size: int) -> None:
    """A head is another one, or has an escape, or is sent in pieces, which come with what is before them."""
    with talking(store) as (_, client):
        enter(client)
        parts = [frame(2), frame(3), frame(4, custom="x"), frame(5), frame(6), frame(7), b"\n\r\n"]
        parts += [
            frame(8).replace(b"\n", b"\r\n", 6),
            frame(9),
            frame(10),
            frame(11, b"x" * 70_000),
            frame(12),
        ]
        parts += [frame(13).replace(b"r-13", b"r-\\c"), frame(14)]
        data = b"".join(parts)
        for start in range(0, len(data), size) if size > 1 else [0]:
            client.socket.sendall(data[start : start + size] if size > 1 else data)
        found = [client.expect("RECEIPT").headers["receipt-id"] for _ in range(13)]
        assert found == [f"r-{number}" if number != 13 else "r-:" for number in range(2, 15)]
    assert bodies(store) == [(b"%03d" % n if n != 11 else b"x" * 70_000) for n in range(15)]


@pytest.mark.backends("memory", "postgresql")
def test_the_order_of_a_connection_stays_when_it_changes_its_way(store: Store) -> None:
    with talking(store) as (_, client):
        enter(client)
        data, expected = [], [b"000", b"001"]
        for number in range(2, 120):
            kind = number % 6
            more: dict[str, str] = {"custom": "x"} if kind == 3 else {}
            if kind == 4:
                data.append(b"BEGIN\ntransaction:t\n\n\0")
                more["transaction"] = "t"
            data.append(frame(number, **more))
            expected.append(b"%03d" % number)
            if kind == 4:
                data.append(b"COMMIT\ntransaction:t\n\n\0")
        client.socket.sendall(b"".join(data))
        receipts(client, *range(2, 120))
    assert bodies(store) == expected


@pytest.mark.backends("postgresql")
def test_a_receipt_is_that_of_a_commit(
    store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with read_in_full(monkeypatch) as commands, talking(store) as (_, client):
        enter(client)
        commands.clear()
        with writes_held(database):
            client.socket.sendall(frame(2))
            assert client.has_nothing_more()
            assert "SEND" not in commands
        assert client.expect("RECEIPT").headers["receipt-id"] == "r-2"
    assert bodies(store) == [b"000", b"001", b"002"]


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_each_write_is_guarded(store: Store, open_store: OpenStore) -> None:
    """Another writer takes the next sequences, and a page must not skip what is stored after its message."""
    with talking(store) as (_, client):
        enter(client)
        with open_store() as other:
            other.queue("Q").add_message(Message("of the other"))
        client.socket.sendall(frame(2))
        receipts(client, 2)
    assert bodies(store) == [b"000", b"001", "of the other", b"002"]


@pytest.mark.backends("memory")
def test_a_permission_that_went(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with read_in_full(monkeypatch) as commands, talking(store) as (served, client):
        enter(client)

        def revoke() -> None:
            (connection,) = served.connector.clients
            connection.access.principal = Principal("any", (), ())
            connection.access.forget_writable()

        served.call(revoke)
        commands.clear()
        client.socket.sendall(frame(2) + frame(3))
        for number in (2, 3):
            refused = client.expect("ERROR")
            assert "not authorized to send" in refused.headers["message"]
            assert refused.headers["receipt-id"] == f"r-{number}"
        assert commands == ["SEND", "SEND"]
    assert bodies(store) == [b"000", b"001"]


@pytest.mark.backends("memory")
def test_a_queue_without_room(store: Store) -> None:
    policy = PolicyEntry(queue="Q", memory_limit=4000, pending_queue_policy="vmQueueCursor")
    with Served(store, policy) as served, Client(served.port) as client:
        enter(client)
        client.socket.sendall(frame(2))
        receipts(client, 2)
        client.socket.sendall(frame(3) + frame(4))
        assert client.has_nothing_more()
        served.run(served.engine.until_idle())
        assert len(bodies(store)) == 3
        with Client(served.port) as other:
            other.subscribe(QUEUE)
            assert [one.body for one in other.messages(5)] == [b"%03d" % number for number in range(5)]
        receipts(client, 3, 4)


@pytest.mark.backends("memory")
def test_a_queue_that_is_deleted(store: Store) -> None:
    with talking(store) as (served, client):
        enter(client)
        queue = served.engine.destinations[Destination.queue("Q")]
        served.run(served.engine.deletion.delete(queue))
        client.socket.sendall(frame(2))
        receipts(client, 2)
        client.subscribe(QUEUE)
        assert client.expect("MESSAGE").body == b"002"


@pytest.mark.backends("memory")
def test_a_topic(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    news = {"destination": "/topic/NEWS", "persistent": "true"}
    with read_in_full(monkeypatch) as commands, talking(store) as (served, client):
        client.subscribe("/topic/NEWS")
        for number in range(4):
            client.write("SEND", {**news, "receipt": "r"}, b"%d" % number)
            assert {client.read().command for _ in range(2)} == {"MESSAGE", "RECEIPT"}
        assert commands == ["CONNECT", "SUBSCRIBE", "SEND", "SEND"]
        with Client(served.port, client_id="me") as other:
            other.subscribe("/topic/NEWS", **{"activemq.subscriptionName": "s"})
        client.request("UNSUBSCRIBE", {"id": "0"})
        commands.clear()
        client.request("SEND", news, b"kept")
        assert commands == []
    assert [one.body for one in store.topic("NEWS").subscription("me", "s").recover()] == ["kept"]


@pytest.mark.backends("postgresql")
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the calls are those of Python 3.11")
@pytest.mark.skipif(in_use() != "compiled", reason="the calls are those of the compiled core")
def test_a_send_takes_few_calls(store: Store) -> None:
    calls = Calls()  # of the threads that are started from now on
    try:
        with talking(store) as (_, client):
            enter(client)

            def send() -> None:
                client.socket.sendall(frame(2))
                client.socket.recv(4096)

            calls.count("SEND", send)
    finally:
        threading.setprofile(None)
    assert calls.found["SEND"] <= MOST_CALLS


@pytest.mark.backends("memory", "sqlite")
@pytest.mark.parametrize("large", [0, 64])
def test_a_body_is_no_frame(store: Store, large: int) -> None:
    """It arrives after its head, or after its first part, and looks like the frames before."""
    options = {"min_large_message_size": large} if large and isinstance(store, KeepsLargeBodies) else {}
    with talking(store, **options) as (_, client):
        enter(client)
        inner = frame(99)
        for number in range(2, 10, 2):
            first = b"x" * large
            data = frame(number + 1, first + inner)
            split = data.index(b"\n\n") + 2 + len(first)
            client.socket.sendall(frame(number) + data[:split])
            receipts(client, number)  # all of it has been read
            client.socket.sendall(data[split:])
            receipts(client, number + 1)
        assert not any(map(body_in_pieces, [*store.queue("Q").recover()][::2]))
        client.subscribe(QUEUE)
        received = [message.body for message in client.messages(10)]
    others = [(b"%03d" % number, first + inner) for number in range(2, 10, 2)]
    assert received == [b"000", b"001", *chain.from_iterable(others)]


@pytest.mark.backends("memory")
def test_a_head_without_a_destination(store: Store) -> None:
    with talking(store) as (_, client):
        for number in range(3):
            client.write("SEND", {"receipt": f"r-{number}"}, b"x")
            assert client.expect("ERROR").headers["receipt-id"] == f"r-{number}"


@pytest.mark.backends("memory", "sqlite", "postgresql")
def test_a_loop_that_looks_before_it_sleeps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float | None] = []
    asleep = threading.Event()

    class Selector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            timeouts.append(timeout)
            if timeout != 0:
                asleep.set()
            found = super().select(timeout)
            asleep.clear()
            return found

    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    with Served(store, loop=TurnLoop(0.0005)) as served, Client(served.port) as client:
        for number in range(20):
            client.socket.sendall(frame(number))
            receipts(client, number)
        assert asleep.wait(PATIENCE)
        assert [number for number, one in enumerate(timeouts) if one != 0 and timeouts[number - 1] != 0] == []
    assert bodies(store) == [b"%03d" % number for number in range(20)]
