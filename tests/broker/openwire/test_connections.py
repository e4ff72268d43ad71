"""The connection of an OpenWire client: the wire format, the login, limits, errors, and its end."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from jdbcstore import Destination, Store
from jdbcstore.broker.api import Known
from jdbcstore.broker.openwire import advisories
from jdbcstore.broker.openwire.commands import Type, write_command
from jdbcstore.broker.openwire.frames import agree, wire_format_info
from jdbcstore.broker.security import Principal, Security
from jdbcstore.broker.temporary import owner_of
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import NotAuthorized
from jdbcstore.message.destination import DestinationKind
from jdbcstore.message.ids import ConnectionId, ConsumerId, LocalTransactionId, MessageId, ProducerId
from jdbcstore.message.openwire.encoder import encode_map
from tests.support.broker.openwire.client import Client, offer_of
from tests.support.broker.openwire.serving import Served
from tests.support.broker.stomp.serving import Client as StompClient

pytestmark = pytest.mark.backends("memory")

Q = Destination.queue("Q")
SECURITY = "java.lang.SecurityException"


class OnlyQ(Security):
    """Lets in who knows the password, and to Q alone."""

    async def login(self, name: str | None, password: str | None) -> Principal:
        if (name, password) != ("ann", "secret"):
            raise NotAuthorized("the user name or the password is wrong")
        return Principal("ann", *[[Q]] * 3)


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with Client(served.openwire_port) as client:
        yield client


def still_serves(served: Served) -> None:
    with Client(served.openwire_port) as client:
        client.send(Q, "alive")


@pytest.mark.parametrize("version", [9, 10, 11, 12, 13])
def test_versions(served: Served, version: int) -> None:
    with Client(served.openwire_port, min(version, 12), login=False) as client:
        client.version = version
        client.agree()
        client.version = min(version, 12)
        client.connect()
        consumer_id = client.consume(Q)
        client.send(Q, f"in {version}", correlation_id="c")
        message, redeliveries = client.dispatched()
        assert (message.body, message.correlation_id, redeliveries) == (f"in {version}", "c", 0)
        client.acknowledge(consumer_id, message)


def test_versions_understand_each_other(served: Served) -> None:
    with Client(served.openwire_port, 9) as old, Client(served.openwire_port, 12) as new:
        for sender, receiver in ((old, new), (new, old)):
            consumer_id = receiver.consume(Q)
            sender.send(Q, b"\0\1", jms_type="t")
            message, _ = receiver.dispatched()
            assert (message.body, message.jms_type) == (b"\0\1", "t")
            receiver.acknowledge(consumer_id, message)
            receiver.request(Type.REMOVE_INFO, object_id=consumer_id, last_delivered=-2)


def test_an_old_version_is_refused(served: Served) -> None:
    with Client(served.openwire_port, login=False) as client:
        body = b"\1ActiveMQ" + (8).to_bytes(4, "big") + b"\0"
        client.socket.sendall(len(body).to_bytes(4, "big") + body)
        error = client.expect(Type.CONNECTION_ERROR)["error"]
        assert "lower the minimum version" in error.text
        assert client.ends()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"CONNECT\naccept-version:1.2\n\n\0",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        b"\0\0\0\1\1",
        b"\0\0\0\x0e\1ActiveMX\0\0\0\x0c\0",
        struct.pack(">iB8si?i", 18, 1, b"ActiveMQ", 12, True, 1 << 30),
        write_command(Type.KEEP_ALIVE_INFO),
    ],
)
def test_what_is_not_openwire_is_refused(served: Served, data: bytes) -> None:
    with Client(served.openwire_port, login=False) as client:
        client.socket.sendall(data)
        assert client.ends()
    still_serves(served)


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        (encode_map({f"{n}": n for n in range(64)}), None),
        (encode_map({f"{n}": n for n in range(65)}), "65 properties"),
        # The count alone is enough: what follows is not decoded.
        (struct.pack(">i", 1_000_000) + b"\xff" * 20_000, "1000000 properties"),
        (struct.pack(">i", 64) + b"\0", "do not fit|does not fit|too early"),
        (b"\0\0", "too early"),
        (encode_map({"k": "v" * 512}), None),
        (encode_map({"k": "v" * 513}), "513 bytes"),
        (encode_map({"k": "\u00e9" * 256 + "v"}), "513 bytes"),
        (encode_map({"k": b"v" * 513}), "513 bytes"),
        (encode_map({"k" * 512: "v"}), None),
        (encode_map({"k" * 513: "v"}), "513 bytes"),
        (encode_map({"k": {}}), "a map or a list"),
        (encode_map({"k": []}), "a map or a list"),
        (encode_map({"k": [[[[1]]]]}), "a map or a list"),
    ],
)
def test_properties_of_an_offer(served: Served, properties: bytes, refusal: str | None) -> None:
    """As ActiveMQ since 6.3: at most 64, none over 512 bytes, none nested."""
    with Client(served.openwire_port, login=False) as client:
        client.socket.sendall(offer_of(properties))
        if refusal is None:
            client.expect(Type.BROKER_INFO)
            client.connect()
        else:
            assert re.search(refusal, client.expect(Type.CONNECTION_ERROR)["error"].text)
            assert client.ends()


def test_nothing_but_a_login_comes_first(served: Served) -> None:
    with Client(served.openwire_port, login=False) as client:
        client.agree()
        name, text = client.refused(Type.PRODUCER_INFO, producer_id=client.producer_id)
        assert name == "java.io.IOException"
        assert "CONNECTION_INFO" in text
        assert client.ends()
    with Client(served.openwire_port, login=False) as client:
        client.agree()
        client.socket.sendall(client.message(Q, "early"))
        assert client.ends()


def test_frames_before_the_login_are_small(served: Served) -> None:
    with Client(served.openwire_port, login=False) as client:
        client.agree()
        client.write(Type.CONNECTION_INFO, connection_id=ConnectionId("c"), user="u" * 40_000)
        assert "Frame size" in client.expect(Type.CONNECTION_ERROR)["error"].text
        assert client.ends()


def test_frames_after_it_are_limited(store: Store) -> None:
    with Served(store, max_frame_size=10_000) as served, Client(served.openwire_port) as client:
        client.send(Q, b"x" * 9000)
        client.socket.sendall(client.message(Q, b"x" * 11_000))
        assert "Frame size" in client.expect(Type.CONNECTION_ERROR)["error"].text
        assert client.ends()


def test_a_wrong_password_is_refused(store: Store) -> None:
    with Served(store, security=OnlyQ()) as served:
        for password in ("wrong", None):
            with Client(served.openwire_port, login=False) as client:
                client.agree()
                values = {"connection_id": ConnectionId("c"), "user": "ann", "password": password}
                name, text = client.refused(Type.CONNECTION_INFO, **values)
                assert (name, text) == (SECURITY, "the user name or the password is wrong")
                assert client.ends()


def test_what_a_user_may_not_is_refused(store: Store) -> None:
    other = Destination.queue("OTHER")
    with (
        Served(store, security=OnlyQ()) as served,
        Client(served.openwire_port, user="ann", password="secret") as client,
    ):
        client.request(Type.PRODUCER_INFO, producer_id=client.producer_id, destination=Q)
        values = {"producer_id": client.producer_id, "destination": other}
        assert client.refused(Type.PRODUCER_INFO, **values)[0] == SECURITY
        client.socket.sendall(client.message(other, "x"))
        assert client.expect(Type.EXCEPTION_RESPONSE)["error"].name == SECURITY
        consumer = {"consumer_id": ConsumerId("c", 1, 1), "destination": other, "prefetch": 1}
        assert client.refused(Type.CONSUMER_INFO, **consumer)[0] == SECURITY
        client.send(Q, "may")
    assert [destination.name for destination in store.destinations()] == ["Q"]


def test_one_who_does_not_log_in_is_disconnected(store: Store) -> None:
    with (
        Served(store, connect_attempt_timeout=0.2) as served,
        Client(served.openwire_port, login=False) as client,
    ):
        assert client.ends()


def test_connections_are_limited(store: Store) -> None:
    with (
        Served(store, maximum_connections=1) as served,
        Client(served.openwire_port),
        Client(served.openwire_port, login=False) as second,
    ):
        assert "1 connections" in second.expect(Type.CONNECTION_ERROR)["error"].text
        assert second.ends()


def test_consumers_are_limited(store: Store) -> None:
    with Served(store, max_subscriptions=2) as served, Client(served.openwire_port) as client:
        for _ in range(2):
            client.consume(Q)
        values = {"consumer_id": ConsumerId("c", 1, 9), "destination": Q, "prefetch": 1}
        assert "maximum" in client.refused(Type.CONSUMER_INFO, **values)[1]


def test_keep_alive(client: Client) -> None:
    client.write(Type.KEEP_ALIVE_INFO)
    client.expect(Type.KEEP_ALIVE_INFO)


def test_a_client_that_is_silent_is_disconnected_and_is_sent_keep_alive(served: Served) -> None:
    offer = wire_format_info(1 << 20, 2_000, "")
    at_once = offer.replace(struct.pack(">q", 10_000), struct.pack(">q", 0))
    assert at_once != offer
    with Client(served.openwire_port, login=False) as client:
        client.socket.sendall(at_once)
        client.expect(Type.BROKER_INFO)
        client.connect()
        client.expect(Type.KEEP_ALIVE_INFO)
        assert client.ends()


def test_a_client_need_not_send_keep_alive_before_its_first_delay_is_over(served: Served) -> None:
    """ActiveMQ's own clients do not, however short their maxInactivityDuration is."""
    with Client(served.openwire_port, login=False) as client:
        client.socket.sendall(wire_format_info(1 << 20, 300, ""))
        client.expect(Type.BROKER_INFO)
        client.connect()
        for _ in range(10):  # the broker sends one each 100 ms
            client.expect(Type.KEEP_ALIVE_INFO)
        client.request(Type.SHUTDOWN_INFO)


def test_the_name_of_the_broker(served: Served) -> None:
    served.service.name = "orders"
    with Client(served.openwire_port, login=False) as client:
        assert client.agree()["broker_name"] == "orders"


@pytest.mark.parametrize(("theirs", "agreed"), [(60_000, 1_500), (400, 400)])
def test_a_connector_with_an_inactivity_duration(store: Store, theirs: int, agreed: int) -> None:
    """The shorter one holds, and the client learns the broker's."""
    with Served(store, max_inactivity_duration=1.5) as served, Client(served.openwire_port) as client:
        assert client.offer is not None
        assert agree(client.offer, 1 << 20, theirs).inactivity_ms == agreed


def test_a_connector_without_inactivity_monitor(store: Store) -> None:
    """It sends no keep-alive while another one sends several."""
    offer = wire_format_info(1 << 20, 300, "")
    with (
        Served(store, use_inactivity_monitor=False) as served,
        Served(store) as other,
        Client(served.openwire_port, login=False) as client,
        Client(other.openwire_port, login=False) as monitored,
    ):
        for one in (client, monitored):
            one.socket.sendall(offer)
            one.expect(Type.BROKER_INFO)
            one.connect()
        for _ in range(5):
            monitored.expect(Type.KEEP_ALIVE_INFO)
        client.write(Type.FLUSH_COMMAND)
        frame = client.frame()
        assert frame is not None
        assert frame[4] == Type.RESPONSE


def test_a_client_ends_its_connection_twice_and_begins_another_one(client: Client) -> None:
    for _ in range(2):
        client.request(Type.REMOVE_INFO, object_id=ConnectionId(client.connection_id), last_delivered=-2)
    refused = client.refused(Type.PRODUCER_INFO, producer_id=client.producer_id)
    assert "not open" in refused[1]
    client.connect()
    client.send(Q, "x")


def test_a_shutdown_ends_the_connection(client: Client) -> None:
    client.request(Type.SHUTDOWN_INFO)
    assert client.ends()


@pytest.mark.parametrize("kind", [Type.RESPONSE, Type.BROKER_INFO, Type.CONTROL_COMMAND, Type.PRODUCER_ACK])
def test_commands_that_are_not_a_clients(served: Served, client: Client, kind: Type) -> None:
    values: dict[str, Any] = {"producer_id": client.producer_id} if kind is Type.PRODUCER_ACK else {}
    client.write(kind, **values)
    assert client.ends()
    still_serves(served)


def test_unknown_types(served: Served) -> None:
    for kind in (0, 13, 40, 50, 60, 65, 90, 99, 255):
        with Client(served.openwire_port) as client:
            client.socket.sendall(struct.pack(">iBi?", 6, kind, 1, True))
            assert "Unknown data type" in client.expect(Type.CONNECTION_ERROR)["error"].text
            assert client.ends()


def test_a_client_that_reconnects_takes_over(served: Served) -> None:
    """A connection that hangs does not keep its messages, nor its client id, from the next one."""
    with Client(served.openwire_port, connection_id="same", client_id="c") as first:
        first.consume(Q)
        first.send(Q, "once")
        first.dispatched()
        with Client(served.openwire_port, connection_id="same", client_id="c") as second:
            assert first.ends()
            second.consume(Q)
            message, redeliveries = second.dispatched()
            assert (message.body, redeliveries) == ("once", 1)


class Anyone(Security):
    """Lets in any user, to everything."""

    async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
        return Principal(name or "")


def test_a_client_that_connects_looks_at_temporary_destinations_only(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every JMS client watches these; with all others it would be N x N for N clients that reconnect."""
    looked: list[object] = []

    def topics(what: Known) -> Any:
        looked.append(what)
        return all_topics(what)

    all_topics = advisories._topics
    with Client(served.openwire_port) as other, Client(served.openwire_port) as client:
        for number in range(20):
            other.consume(Destination.queue(f"Q.{number}"))
        replies = Destination(DestinationKind.TEMPORARY_QUEUE, f"{other.connection_id}:1")
        other.request(Type.DESTINATION_INFO, destination=replies, operation=0)
        monkeypatch.setattr(advisories, "_topics", topics)
        of_temporary = [f"topic://ActiveMQ.Advisory.Temp{kind}" for kind in ("Queue", "Topic")]
        client.consume(Destination.parse(",".join(of_temporary)))
        told = client._frame_but(Type.KEEP_ALIVE_INFO)
        assert told is not None
        assert replies.name.encode() in told
        assert looked == [replies]


def test_another_user_does_not_take_over(store: Store) -> None:
    with (
        Served(store, security=Anyone()) as served,
        Client(served.openwire_port, connection_id="same", user="ann") as first,
    ):
        with Client(served.openwire_port, connection_id="same", login=False) as second:
            second.agree()
            values = {"connection_id": ConnectionId("same"), "user": "eve"}
            assert second.refused(Type.CONNECTION_INFO, **values)[0] == SECURITY
        first.send(Q, "still here")


@pytest.mark.parametrize("user", ["eve", "ann"])
def test_an_id_that_the_broker_gives_is_not_taken(store: Store, user: str) -> None:
    """Whoever is asked by a STOMP client knows its connection's id: the reply queue has it in its name."""
    with (
        Served(store, security=Anyone()) as served,
        StompClient(served.port, login="ann") as ann,
        Client(served.openwire_port, user="eve") as eve,
    ):
        eve.consume(Q)
        ann.subscribe("/temp-queue/replies", "r")
        ann.send("/queue/Q", "ask", reply_to="/temp-queue/replies")
        reply_to = eve.dispatched()[0].reply_to
        assert reply_to is not None
        given = owner_of(reply_to)
        assert given == ann.connected.headers["session"]
        for taken in (given, f"{served.service.broker_id}:{1 << 40}"):
            with Client(served.openwire_port, connection_id=taken, login=False) as thief:
                thief.agree()
                values = {"connection_id": ConnectionId(taken), "user": user}
                assert thief.refused(Type.CONNECTION_INFO, **values)[0] == SECURITY
                assert thief.ends()
        eve.send(reply_to, "for ann")
        assert ann.expect("MESSAGE").body == b"for ann"


def test_patterns_do_not_reach_the_replies_of_others(store: Store) -> None:
    """Ids have host names in them: what is before a dot may be another's id."""
    with (
        Served(store, security=Anyone()) as served,
        Client(served.openwire_port, connection_id="ID:a.example.com-1:1", user="ann") as ann,
        Client(served.openwire_port, connection_id="ID", user="eve") as eve,
    ):
        replies = Destination(DestinationKind.TEMPORARY_QUEUE, f"{ann.connection_id}:1")
        ann.consume(replies)
        everything = Destination(DestinationKind.TEMPORARY_QUEUE, "ID:a.>")
        assert owner_of(everything) == eve.connection_id
        consumer = {"consumer_id": ConsumerId("ID", 1, 1), "destination": everything, "prefetch": 1}
        name, text = eve.refused(Type.CONSUMER_INFO, **consumer)
        assert (name, "wildcards" in text) == ("javax.jms.InvalidDestinationException", True)
        for body in ("first", "second"):
            eve.send(replies, body)
            assert ann.dispatched()[0].body == body


def test_a_message_that_was_stored_before_a_reconnect_is_stored_once(served: Served, store: Store) -> None:
    with Client(served.openwire_port, connection_id="same") as first:
        frame = first.message(Q, "once")
        first.socket.sendall(frame)
        first.expect(Type.RESPONSE)
    with Client(served.openwire_port, connection_id="same", failover_reconnect=True) as second:
        second.request(Type.PRODUCER_INFO, producer_id=second.producer_id)
        second.socket.sendall(frame)
        second.expect(Type.RESPONSE)
        next(second._sent)
        second.send(Q, "another")
    assert [message.body for message in store.queue("Q").recover()] == ["once", "another"]


STANDARD, POISON = 2, 1


@pytest.fixture
def back(served: Served) -> Iterator[Client]:
    """A client that has reconnected: it consumes again what it has got before, and counts that, too."""
    with Client(served.openwire_port, failover_reconnect=True) as client:
        yield client


@pytest.mark.parametrize("kind", [STANDARD, POISON])
def test_a_range_with_messages_from_before_a_reconnect(
    served: Served, client: Client, back: Client, kind: int
) -> None:
    """What is in it is delivered again, on the next connection."""
    client.consume(Q, prefetch=1)
    back.send(Q, "elsewhere")
    elsewhere, _ = client.dispatched()
    consumer_id = back.consume(Q)
    back.send(Q, "here")
    here, _ = back.dispatched()
    ack = {"consumer_id": consumer_id, "destination": Q, "ack_type": kind, "count": 2}
    ends = {"first": elsewhere.message_id, "last": here.message_id}
    assert back.refused(Type.MESSAGE_ACK, **ack, **ends)[0] == "java.io.IOException"
    assert back.ends()
    with Client(served.openwire_port) as again:
        again.consume(Q)
        assert [again.dispatched()[0].body] == ["here"]


@pytest.mark.parametrize("kind", [STANDARD, POISON])
@pytest.mark.parametrize("order", ["in another order", "with another between them"])
def test_a_transaction_with_messages_from_before_a_reconnect(
    served: Served, back: Client, order: str, kind: int
) -> None:
    """The client has rolled back m1 and m3 and consumed them again, and not yet m2."""
    for body in ("m1", "m2", "m3"):
        back.send(Q, body)
    consumer_id = back.consume(Q)
    m1, _, m3 = [back.dispatched()[0] for _ in range(3)]
    first, last = (m3, m1) if order == "in another order" else (m1, m3)
    name = LocalTransactionId(ConnectionId(back.connection_id), 1)
    back.request(Type.TRANSACTION_INFO, transaction_id=name, operation=0)
    ack = {"consumer_id": consumer_id, "destination": Q, "count": 2}
    ends = {"first": first.message_id, "last": last.message_id}
    transaction = {"transaction_id": name if kind == STANDARD else None}
    refused, _ = back.refused(Type.MESSAGE_ACK, **ack, **ends, ack_type=kind, **transaction)
    assert refused == "java.io.IOException"
    assert back.ends()
    with Client(served.openwire_port) as again:
        again.consume(Q)
        assert [again.dispatched()[0].body for _ in range(3)] == ["m1", "m2", "m3"]


def test_what_is_committed_is_not_committed_again(served: Served, back: Client, store: Store) -> None:
    """A client that got a message twice, from itself and the broker, has to forget the second one."""
    for body in ("m1", "m2"):
        back.send(Q, body)
    consumer_id = back.consume(Q)
    m1, _ = back.dispatched()
    assert back.dispatched()[0].body == "m2"
    names = [LocalTransactionId(ConnectionId(back.connection_id), number) for number in (1, 2)]
    for name in names:
        back.request(Type.TRANSACTION_INFO, transaction_id=name, operation=0)
    back.acknowledge(consumer_id, m1, transaction_id=names[0])
    back.request(Type.TRANSACTION_INFO, transaction_id=names[0], operation=2)
    back.send(Q, "made of m1", transaction_id=names[1])
    ack = {"consumer_id": consumer_id, "destination": Q, "count": 1, "ack_type": STANDARD}
    ends = {"first": m1.message_id, "last": m1.message_id}
    assert back.refused(Type.MESSAGE_ACK, **ack, **ends, transaction_id=names[1])[0] == "java.io.IOException"
    assert back.ends()
    with Client(served.openwire_port) as again:
        again.consume(Q)
        assert again.dispatched()[0].body == "m2"
    assert [message.body for message in store.queue("Q").recover()] == ["m2"]


@pytest.mark.parametrize("operation", [2, 4])
def test_the_connection_ends_when_the_transaction_does(back: Client, store: Store, operation: int) -> None:
    """A client that loses it before could commit on the next one what this one has refused."""
    back.send(Q, "m1")
    consumer_id = back.consume(Q)
    m1, _ = back.dispatched()
    names = [LocalTransactionId(ConnectionId(back.connection_id), number) for number in (1, 2)]
    for name in names:
        back.request(Type.TRANSACTION_INFO, transaction_id=name, operation=0)
    back.acknowledge(consumer_id, m1, transaction_id=names[0])
    back.request(Type.TRANSACTION_INFO, transaction_id=names[0], operation=2)
    ack = {"consumer_id": consumer_id, "destination": Q, "count": 1, "ack_type": STANDARD}
    ends = {"first": m1.message_id, "last": m1.message_id}
    back.write(Type.MESSAGE_ACK, wants=False, **ack, **ends, transaction_id=names[1])
    back.send(Q, "made of m1", transaction_id=names[1])
    back.write(Type.TRANSACTION_INFO, transaction_id=names[1], operation=operation)
    assert back.expect(Type.CONNECTION_ERROR)["error"].name == "java.io.IOException"
    assert back.ends()
    assert not [*store.queue("Q").recover()]


@pytest.mark.parametrize("operation", [2, 4])
def test_a_client_that_has_not_resumed_keeps_its_connection(back: Client, operation: int) -> None:
    """ActiveMQ's reconnects without a prefetch, which it never gets back if the connection ends again."""
    back.send(Q, "m1")
    consumer_id = back.consume(Q, prefetch=0)
    earlier = MessageId(back.producer_id, 77, 0)
    values = {"consumer_id": consumer_id, "destination": Q, "ack_type": STANDARD, "count": 1}
    for number in range(100):
        name = LocalTransactionId(ConnectionId(back.connection_id), number)
        back.request(Type.TRANSACTION_INFO, transaction_id=name, operation=0)
        back.refused(Type.MESSAGE_ACK, **values, first=earlier, last=earlier, transaction_id=name)
        if operation == 2:
            rolled_back, _ = back.refused(Type.TRANSACTION_INFO, transaction_id=name, operation=2)
            assert rolled_back == "javax.jms.TransactionRolledBackException"
        else:
            back.request(Type.TRANSACTION_INFO, transaction_id=name, operation=4)
    back.request(Type.CONSUMER_CONTROL, consumer_id=consumer_id, destination=Q, prefetch=1)
    assert back.dispatched()[0].body == "m1"
    last = LocalTransactionId(ConnectionId(back.connection_id), 100)
    back.request(Type.TRANSACTION_INFO, transaction_id=last, operation=0)
    values |= {"first": earlier, "last": earlier, "transaction_id": last}
    assert back.refused(Type.MESSAGE_ACK, **values)[0] == "java.io.IOException"
    assert back.ends()


def test_a_late_acknowledgement_from_before_a_reconnect(client: Client, back: Client) -> None:
    client.consume(Q, prefetch=1)
    back.send(Q, "elsewhere")
    elsewhere, _ = client.dispatched()
    consumer_id = back.consume(Q)
    back.acknowledge(consumer_id, elsewhere)
    back.send(Q, "here")
    here, _ = back.dispatched()
    back.acknowledge(consumer_id, here)


DELIVERED = 0


@pytest.mark.parametrize("kind", [STANDARD, POISON, DELIVERED])
def test_acknowledgements_that_match_nothing_are_not_searched_for(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    """Each costs the same, however many messages are pending."""
    compared = 0

    def equals(one: MessageId, other: object) -> bool:
        nonlocal compared
        compared += 1
        return as_before(one, other)

    as_before = MessageId.__eq__
    consumer_id = client.consume(Q)
    for number in range(100):
        client.socket.sendall(client.message(Q, str(number), response_required=False))
    messages = [client.dispatched()[0] for _ in range(100)]
    last = messages[-1].message_id
    assert last is not None
    ack: dict[str, Any] = {"consumer_id": consumer_id, "destination": Q, "count": 1}
    monkeypatch.setattr(MessageId, "__eq__", equals)
    for number in range(100):
        other = MessageId(last.producer_id, 1000 + number, 5000)
        client.write(Type.MESSAGE_ACK, **ack, wants=False, ack_type=kind, first=other, last=other)
    client.acknowledge(consumer_id, messages[0])
    assert compared < 100
    wrong_number = MessageId(last.producer_id, last.producer_sequence, 5000)
    client.request(Type.MESSAGE_ACK, **ack, ack_type=STANDARD, first=wrong_number, last=wrong_number)
    assert [message.body for message in store.queue("Q").recover()] == [str(n) for n in range(1, 99)]


def test_what_is_rolled_back_makes_room_again_when_it_is_used_again(client: Client) -> None:
    """A client redelivers it to itself, says again that it has used it, and expects the next message."""
    for body in "abcd":
        client.send(Q, body)
    consumer_id = client.consume(Q, prefetch=2)
    ack: dict[str, Any] = {"consumer_id": consumer_id, "destination": Q, "count": 1}
    messages = [client.dispatched()[0] for _ in range(2)]
    client.request(Type.MESSAGE_ACK, **ack, ack_type=DELIVERED, last=messages[0].message_id)
    messages.append(client.dispatched()[0])
    name = LocalTransactionId(ConnectionId(client.connection_id), 1)
    client.request(Type.TRANSACTION_INFO, transaction_id=name, operation=0)
    ends = {"first": messages[0].message_id, "last": messages[0].message_id}
    client.request(Type.MESSAGE_ACK, **ack, **ends, ack_type=STANDARD, transaction_id=name)
    client.request(Type.TRANSACTION_INFO, transaction_id=name, operation=4)
    client.request(Type.MESSAGE_ACK, **ack, ack_type=DELIVERED, last=messages[1].message_id)
    assert client.dispatched()[0].body == "d"


def test_a_producers_window(client: Client) -> None:
    client.request(Type.PRODUCER_INFO, producer_id=client.producer_id, window=100_000)
    client.socket.sendall(client.message(Q, b"x" * 1000, response_required=False))
    ack = client.expect(Type.PRODUCER_ACK)
    assert (ack["producer_id"], ack["size"]) == (client.producer_id, 2024)


def test_an_error_without_a_response_is_a_connection_error(client: Client) -> None:
    client.write(Type.MESSAGE_ACK, wants=False, consumer_id=ConsumerId("c", 1, 1), ack_type=99)
    assert client.expect(Type.CONNECTION_ERROR)["error"].name == "javax.jms.JMSException"
    client.send(Q, "it goes on")


def test_a_failed_part_fails_the_transaction(store: Store) -> None:
    with (
        Served(store, security=OnlyQ()) as served,
        Client(served.openwire_port, user="ann", password="secret") as client,
    ):
        name = LocalTransactionId(ConnectionId(client.connection_id), 1)
        client.request(Type.TRANSACTION_INFO, transaction_id=name, operation=0)
        client.send(Q, "in it", transaction_id=name)
        client.socket.sendall(client.message(Destination.queue("X"), "x", transaction_id=name))
        client.expect(Type.EXCEPTION_RESPONSE)
        refused = client.refused(Type.TRANSACTION_INFO, transaction_id=name, operation=2)
        assert refused[0] == "javax.jms.TransactionRolledBackException"
    assert [*store.queue("Q").recover()] == []


def test_every_command_truncated_at_every_byte(served: Served) -> None:
    """The connection ends, and the broker goes on."""
    client = Client(served.openwire_port)
    frames = [
        write_command(Type.CONSUMER_INFO, consumer_id=ConsumerId("c", 1, 1), destination=Q, selector="a = 1"),
        write_command(Type.MESSAGE_ACK, consumer_id=ConsumerId("c", 1, 1), destination=Q),
        write_command(Type.TRANSACTION_INFO, transaction_id=LocalTransactionId(ConnectionId("c"), 1)),
        client.message(Q, "body", properties={"a": 1}, reply_to=Q),
    ]
    client.socket.close()
    for frame in frames:
        for end in range(5, len(frame), 7):
            with Client(served.openwire_port) as client, contextlib.suppress(ConnectionError):
                client.socket.sendall((end - 4).to_bytes(4, "big") + frame[4:end])
                assert client.ends()
    still_serves(served)


def test_random_bytes_after_the_login(served: Served) -> None:
    rng = random.Random(3)
    for _ in range(100):
        with Client(served.openwire_port) as client, contextlib.suppress(ConnectionError):
            body = bytes((rng.choice([*range(1, 35), 255]),)) + rng.randbytes(rng.randrange(200))
            client.socket.sendall(len(body).to_bytes(4, "big") + body)
            client.socket.shutdown(1)
            assert client.ends()
    still_serves(served)


@pytest.mark.parametrize("removed", ["producer", "session"])
def test_producers_are_forgotten(served: Served, client: Client, removed: str) -> None:
    """Neither the broker lists it any more, nor does anything that it sends open its window."""
    other = ProducerId(client.connection_id, 2, 1)
    for producer_id in (client.producer_id, other):
        client.request(Type.PRODUCER_INFO, producer_id=producer_id, destination=Q, window=1)
    assert served.call(lambda: served.engine.directory.count_producers(Q)) == 2
    quickly: dict[str, Any] = {"response_required": False, "producer_id": client.producer_id}
    client.socket.sendall(client.message(Q, "a", **quickly))
    assert client.expect(Type.PRODUCER_ACK)["producer_id"] == client.producer_id
    ended = client.producer_id if removed == "producer" else client.session_id
    client.request(Type.REMOVE_INFO, object_id=ended, last_delivered=0)
    assert served.call(lambda: served.engine.directory.count_producers(Q)) == 1
    client.socket.sendall(client.message(Q, "b", **quickly))
    # That of the other session is still there, and its acknowledgement is the next that comes.
    client.socket.sendall(client.message(Q, "c", response_required=False, producer_id=other))
    assert client.expect(Type.PRODUCER_ACK)["producer_id"] == other
    client.request(Type.REMOVE_INFO, object_id=ConnectionId(client.connection_id), last_delivered=0)
    assert served.call(lambda: served.engine.directory.count_producers(Q)) == 0


@pytest.mark.parametrize(
    ("asked", "delivered"),
    [(1000, 2), (999, 3), (1, 1)],
    ids=["the default", "another", "fewer"],
)
def test_the_policy_has_the_prefetch_that_nobody_has_chosen(store: Store, asked: int, delivered: int) -> None:
    with Served(store, PolicyEntry(queue_prefetch=2)) as served, Client(served.openwire_port) as client:
        for body in "abc":
            client.send(Q, body)
        client.consume(Q, asked)
        assert [client.dispatched()[0].body for _ in range(delivered)] == [*"abc"[:delivered]]
        # Nothing more has come before this is answered.
        client.request(Type.PRODUCER_INFO, producer_id=ProducerId("c", 1, 9), destination=Q)


def test_a_client_is_told_to_pull(store: Store) -> None:
    with Served(store, PolicyEntry(queue_prefetch=0)) as served, Client(served.openwire_port) as client:
        consumer_id = ConsumerId(client.connection_id, 1, 1)
        command_id = client.write(Type.CONSUMER_INFO, consumer_id=consumer_id, destination=Q, prefetch=1000)
        control = client.expect(Type.CONSUMER_CONTROL)
        assert (control["consumer_id"], control["prefetch"]) == (consumer_id, 0)
        client.answer(command_id, Type.RESPONSE)
        client.send(Q, "a")
        client.write(Type.MESSAGE_PULL, wants=False, consumer_id=consumer_id, destination=Q, timeout=0)
        assert client.dispatched()[0].body == "a"


FULL = PolicyEntry(memory_limit=4096, pending_queue_policy="vmQueueCursor")


def test_a_browser_that_pulls_before_it_has_looked(client: Client) -> None:
    """It is not answered that there is nothing: that would be the end of what it is shown."""
    for body in ("m1", "m2"):
        client.send(Q, body)
    consumer_id = ConsumerId(client.connection_id, 1, 1)
    pull: dict[str, Any] = {"wants": False, "consumer_id": consumer_id, "destination": Q, "timeout": -1}
    browser: dict[str, Any] = {"destination": Q, "prefetch": 0, "browser": True}
    subscribing = client.write(Type.CONSUMER_INFO, consumer_id=consumer_id, **browser)
    client.write(Type.MESSAGE_PULL, **pull)
    client.answer(subscribing, Type.RESPONSE)
    for body in ("m1", "m2"):
        assert client.dispatched()[0].body == body
        client.write(Type.MESSAGE_PULL, **pull)
    assert client.expect(Type.MESSAGE_DISPATCH)["message"] is None


def test_a_window_opens_when_there_is_room(store: Store) -> None:
    with Served(store, FULL) as served, Client(served.openwire_port) as client:
        client.request(Type.PRODUCER_INFO, producer_id=client.producer_id, destination=Q, window=100_000)
        for _ in range(2):  # one fills the queue's memory
            quickly = {"persistent": False, "response_required": False, "producer_id": client.producer_id}
            client.socket.sendall(client.message(Q, "x" * 5000, **quickly))
        assert client.expect(Type.PRODUCER_ACK)["producer_id"] == client.producer_id
        client.request(Type.FLUSH_COMMAND)  # which is answered before the second
        with Client(served.openwire_port) as other:
            consumer_id = other.consume(Q)
            for _ in range(2):
                other.acknowledge(consumer_id, other.dispatched()[0])
        assert client.expect(Type.PRODUCER_ACK)["size"] > 5000


def test_a_full_queue_refuses(store: Store) -> None:
    policy = dataclasses.replace(FULL, send_fail_if_no_space=True)
    with Served(store, policy) as served, Client(served.openwire_port) as client:
        client.send(Q, "x" * 5000, persistent=False)
        frame = client.message(Q, "x", persistent=False)
        client.socket.sendall(frame)
        error = client.expect(Type.EXCEPTION_RESPONSE)["error"]
        assert error.name == "javax.jms.ResourceAllocationException"
        client.consume(Q)
