"""What a STOMP client says over a socket, and what becomes of it."""

from __future__ import annotations

import logging
import select
import socket
import struct

import pytest

from jdbcstore import Store
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.broker.transport.connection import ClientConnection
from jdbcstore.config.policy import PolicyEntry, RedeliveryPolicy
from tests.support.broker.stomp.serving import Client, Served, talking
from tests.support.databases import Database
from tests.support.faults.refusing import refused

pytestmark = pytest.mark.backends("memory")

QUEUE = "/queue/Q"


def test_what_is_sent_is_stored_and_received(store: Store) -> None:
    with talking(store) as (_, client):
        client.send(QUEUE, "zażółć", custom="a:b\nc\\", correlation_id="corr", type="t", priority="7")
        (stored,) = store.queue("Q").recover()
        assert (stored.body, stored.priority, stored.properties["custom"]) == ("zażółć", 7, "a:b\nc\\")
        client.subscribe(QUEUE)
        frame = client.expect("MESSAGE")
        assert frame.body.decode() == "zażółć"
        assert "content-length" not in frame.headers
        expected = {"destination": QUEUE, "custom": "a:b\nc\\", "correlation-id": "corr", "type": "t"}
        assert {name: frame.headers[name] for name in expected} == expected
        assert frame.headers["message-id"] == str(stored.message_id)
        assert frame.headers["subscription"] == "0"
        client.request("UNSUBSCRIBE", {"id": "0"})
        client.send(QUEUE, b"\0\1\xff")
        client.subscribe(QUEUE)
        frame = client.expect("MESSAGE")
        assert (frame.body, frame.headers["content-length"]) == (b"\0\1\xff", "3")
    assert store.queue("Q").message_count() == 0


def test_client_mode_acknowledges_all_up_to_a_message(store: Store) -> None:
    with talking(store) as (served, client):
        for body in "abcd":
            client.send(QUEUE, body)
        client.subscribe(QUEUE, ack="client")
        frames = client.messages(4)
        client.request("ACK", {"id": frames[2].headers["ack"]})
        assert store.queue("Q").message_count() == 1
        client.socket.close()
        with Client(served.port) as other:
            other.subscribe(QUEUE)
            frame = other.expect("MESSAGE")
            assert (frame.body, frame.headers["redelivered"]) == (b"d", "true")


@pytest.mark.parametrize("version", [Version.V1_1, Version.V1_2])
@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_a_nack_rejects_one_message(store: Store, version: Version, mode: str) -> None:
    """In mode ``client``, too, where an ACK acknowledges all up to it."""
    with Served(store) as served, Client(served.port, version) as client:
        for body in "abc":
            client.send(QUEUE, body)
        client.subscribe(QUEUE, ack=mode)
        frames = client.messages(3)
        keys = [
            {"id": one.headers["ack"]}
            if version is Version.V1_2
            else {"message-id": one.headers["message-id"], "subscription": "0"}
            for one in frames
        ]
        client.request("NACK", keys[1])
        assert [message.body for message in store.queue("Q").recover()] == ["a", "c"]
        assert [message.body for message in store.queue("ActiveMQ.DLQ").recover()] == ["b"]
        client.write("NACK", {**keys[1], "receipt": "again"})
        assert client.expect("ERROR").headers["receipt-id"] == "again"
        client.write("NACK", {**keys[0], "transaction": "t", "receipt": "transacted"})
        assert client.expect("ERROR").headers["receipt-id"] == "transacted"
        client.request("ACK", keys[2])
        assert [message.body for message in store.queue("ActiveMQ.DLQ").recover()] == ["b"]
        assert store.queue("Q").message_count() == (0 if mode == "client" else 1)


def test_a_nack_delivers_again_as_the_policy_says(store: Store) -> None:
    policy = PolicyEntry(
        redelivery_policy=RedeliveryPolicy(maximum_redeliveries=1, initial_redelivery_delay=0.0)
    )
    with Served(store, policy) as served, Client(served.port) as client:
        client.send(QUEUE, "a")
        client.subscribe(QUEUE, ack="client-individual")
        client.request("NACK", {"id": client.expect("MESSAGE").headers["ack"]})
        again = client.expect("MESSAGE")
        assert (again.body, again.headers["redelivered"]) == (b"a", "true")
        assert store.queue("Q").message_count() == 1
        client.request("NACK", {"id": again.headers["ack"]})
        assert client.has_nothing_more()
    assert store.queue("Q").message_count() == 0
    assert [message.body for message in store.queue("ActiveMQ.DLQ").recover()] == ["a"]


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    with talking(store) as (_, client):
        client.send(QUEUE, "old")
        client.subscribe(QUEUE, ack="client-individual")
        old = client.expect("MESSAGE")
        client.request("BEGIN", {"transaction": "t"})
        client.request("ACK", {"id": old.headers["ack"], "transaction": "t"})
        client.send(QUEUE, "new", transaction="t")
        client.request("ABORT", {"transaction": "t"})
        assert client.has_nothing_more()
        client.request("BEGIN", {"transaction": "t"})
        client.request("ACK", {"id": old.headers["ack"], "transaction": "t"})
        client.send(QUEUE, "new", transaction="t")
        assert [message.body for message in store.queue("Q").recover()] == ["old"]
        client.write("COMMIT", {"transaction": "t", "receipt": "c"})
        frames = [client.read(), client.read()]
        assert {frame.command for frame in frames if frame} == {"RECEIPT", "MESSAGE"}
        assert [message.body for message in store.queue("Q").recover()] == ["new"]


@pytest.mark.parametrize("how", ["DISCONNECT", "lost"])
def test_the_transaction_of_a_client_that_leaves_is_rolled_back(store: Store, how: str) -> None:
    with Served(store) as served:
        with Client(served.port) as client:
            client.send(QUEUE, "a")
            client.subscribe(QUEUE, ack="client")
            key = client.expect("MESSAGE").headers["ack"]
            client.request("BEGIN", {"transaction": "t"})
            client.request("ACK", {"id": key, "transaction": "t"})
            client.send("/queue/R", "b", transaction="t")
            if how == "DISCONNECT":
                client.request("DISCONNECT")
        with Client(served.port) as other:
            other.subscribe(QUEUE)
            frame = other.expect("MESSAGE")
            assert (frame.body, frame.headers["redelivered"]) == (b"a", "true")
    assert store.queue("R").message_count() == 0


def test_what_a_rollback_gives_back_is_before_the_others(store: Store) -> None:
    """An ACK in mode ``client`` then covers it again, and nothing behind it."""
    with talking(store) as (_, client):
        for body in "abcd":
            client.send(QUEUE, body)
        client.subscribe(QUEUE, ack="client")
        keys = [frame.headers["ack"] for frame in client.messages(4)]
        client.request("BEGIN", {"transaction": "t"})
        client.request("ACK", {"id": keys[2], "transaction": "t"})
        client.request("ABORT", {"transaction": "t"})
        client.request("ACK", {"id": keys[1]})
        assert [message.body for message in store.queue("Q").recover()] == ["c", "d"]
        client.request("ACK", {"id": keys[3]})
        assert store.queue("Q").message_count() == 0


def test_what_may_not_be_acknowledged_or_rejected(store: Store) -> None:
    with Served(store) as served:
        with Client(served.port) as client:
            client.send(QUEUE, "a")
            client.subscribe(QUEUE, browser="true", ack="client")
            client.write("NACK", {"id": client.expect("MESSAGE").headers["ack"], "receipt": "browser"})
            assert client.expect("MESSAGE").headers["browser"] == "end"
            assert client.expect("ERROR").headers["receipt-id"] == "browser"
            client.subscribe(QUEUE, "1", ack="client")
            key = client.expect("MESSAGE").headers["ack"]
            client.write("ACK", {"id": key, "transaction": "unknown", "receipt": "transacted"})
            assert client.expect("ERROR").headers["receipt-id"] == "transacted"
            client.request("ACK", {"id": key})
            client.request("UNSUBSCRIBE", {"id": "1"})
            client.send(QUEUE, "b")
        with Client(served.port, Version.V1_0) as old:
            old.subscribe(QUEUE, ack="client")
            message_id = old.expect("MESSAGE").headers["message-id"]
            old.write("NACK", {"message-id": message_id, "receipt": "old"})
            assert old.expect("ERROR").headers["receipt-id"] == "old"
    assert [message.body for message in store.queue("Q").recover()] == ["b"]


def test_what_is_wrong_is_told_and_the_connection_goes_on(store: Store) -> None:
    with talking(store) as (_, client):
        client.write("SEND", {"destination": "/queue/", "receipt": "r"})
        error = client.expect("ERROR")
        assert error.headers["receipt-id"] == "r"
        client.request("BEGIN", {"transaction": "t"})
        client.send(QUEUE, "in it", transaction="t")
        client.write("BEGIN", {"transaction": "t", "receipt": "again"})
        assert client.expect("ERROR").headers["receipt-id"] == "again"
        client.request("COMMIT", {"transaction": "t"})
        assert store.queue("Q").message_count() == 1
        client.send(QUEUE, "goes on")


@pytest.mark.parametrize(
    ("command", "headers", "words"),
    [
        ("CONNECT", {"accept-version": "1.2", "host": "localhost"}, "Already connected"),
        ("SUBSCRIBE", {"destination": QUEUE}, "needs the header id"),
        ("UNSUBSCRIBE", {"destination": QUEUE}, "needs the header id"),
        ("UNSUBSCRIBE", {"id": "9"}, "No subscription matched"),
        ("UNSUBSCRIBE", {"id": "9", "activemq.subscriptionName": "s"}, "set client-id in CONNECT"),
    ],
)
def test_what_is_refused_changes_nothing(
    store: Store, command: str, headers: dict[str, str], words: str
) -> None:
    with talking(store) as (_, client):
        client.subscribe(QUEUE)
        client.write(command, {**headers, "receipt": "r"})
        error = client.expect("ERROR")
        assert (words in error.headers["message"], error.headers["receipt-id"]) == (True, "r")
        client.write("SEND", {"destination": QUEUE})
        assert client.expect("MESSAGE").headers["subscription"] == "0"
        assert client.has_nothing_more()


def test_a_client_of_version_1_0_unsubscribes_from_a_destination(store: Store) -> None:
    with Served(store) as served, Client(served.port, Version.V1_0) as client:
        for destination in (QUEUE, "/queue/R"):
            client.request("SUBSCRIBE", {"destination": destination})
        client.request("UNSUBSCRIBE", {"destination": QUEUE})
        client.send(QUEUE, "a")
        assert client.has_nothing_more()
        client.write("SEND", {"destination": "/queue/R"})
        assert client.expect("MESSAGE").headers["destination"] == "/queue/R"
        client.write("UNSUBSCRIBE", {"destination": QUEUE})
        assert "No subscription matched" in client.expect("ERROR").headers["message"]


def test_what_cannot_be_understood_closes_the_connection(store: Store) -> None:
    with talking(store) as (_, client):
        client.send(QUEUE, "one")
        client.write("HELLO", {"receipt": "r"})
        assert client.expect("ERROR").headers["receipt-id"] == "r"
        assert client.ends()


def test_disconnect_is_answered_after_everything_else(store: Store) -> None:
    with talking(store) as (_, client):
        for number in range(100):
            client.write("SEND", {"destination": QUEUE, "persistent": "true", "receipt": str(number)})
        client.write("DISCONNECT", {"receipt": "bye"})
        receipts = [client.expect("RECEIPT").headers["receipt-id"] for _ in range(101)]
        assert receipts == [*map(str, range(100)), "bye"]
        assert client.ends()
    assert store.queue("Q").message_count() == 100


def test_a_client_id_is_used_once(store: Store) -> None:
    with Served(store) as served, Client(served.port, client_id="me") as client:
        with Client(served.port, None) as other:
            other.write("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": "me"})
            assert "client-id" in other.expect("ERROR").headers["message"]
            assert other.ends()
        client.request("DISCONNECT")
        assert client.ends()
        Client(served.port, client_id="me").socket.close()


@pytest.mark.parametrize(
    "header",
    ["durable-subscription-name", "durable-subscriber-name", "activemq.subcriptionName"],
)
def test_the_durable_subscriptions_of_clients_of_other_brokers(store: Store, header: str) -> None:
    """Of Artemis, with its routing types beside a bare name, and of ActiveMQ before 5.7."""
    multicast = {"destination": "PRICES", "id": "1", "subscription-type": "MULTICAST", header: "late"}
    with Served(store) as served:
        with Client(served.port, client_id="me") as client:
            client.request("SUBSCRIBE", multicast)
            client.request("DISCONNECT")
        with Client(served.port) as client:
            send = {"destination": "PRICES", "destination-type": "MULTICAST", "persistent": "true"}
            client.request("SEND", send, b"17")
            client.request("SEND", {"destination": "PRICES", "persistent": "true"}, b"to the queue")
        assert [str(one) for one in store.destinations()] == ["queue://PRICES", "topic://PRICES"]
        with Client(served.port, client_id="me") as client:
            client.request("SUBSCRIBE", multicast)
            assert client.expect("MESSAGE").body == b"17"
            client.request("UNSUBSCRIBE", {"id": "1"})
            client.request("UNSUBSCRIBE", {"id": "1", header: "late"})
    assert store.topic("PRICES").subscriptions() == []


@pytest.mark.parametrize("destination", [QUEUE, "/topic/T", f"{QUEUE},/queue/R", "/topic/T,/queue/R"])
@pytest.mark.parametrize("how", ["alone", "committed"])
def test_a_receipt_comes_before_the_message_that_it_is_for(store: Store, destination: str, how: str) -> None:
    """Some clients read one frame after the other, and wait for the receipt."""
    with Served(store) as served, Client(served.port, client_id="c") as client:
        wanted = destination.partition(",")[0]
        durable = {"activemq.subscriptionName": "s"} if wanted == "/topic/T" else {}
        client.request("SUBSCRIBE", {"id": "1", "destination": wanted, **durable})
        send = {"destination": destination, "persistent": "true"}
        for number in range(20):
            if how == "alone":
                client.write("SEND", {**send, "receipt": f"{number}"})
            else:
                client.request("BEGIN", {"transaction": "t"})
                client.request("SEND", {**send, "transaction": "t"})
                client.write("COMMIT", {"transaction": "t", "receipt": f"{number}"})
            assert client.expect("RECEIPT").headers["receipt-id"] == f"{number}"
            assert client.expect("MESSAGE").headers["destination"] == wanted


def test_each_receipt_of_many_comes_before_its_message(store: Store) -> None:
    with Served(store) as served, Client(served.port) as client:
        client.subscribe(QUEUE)
        sends = 200
        for number in range(sends):
            client.write("SEND", {"destination": QUEUE, "persistent": "true", "receipt": "r"}, b"%d" % number)
        receipts = 0
        for _ in range(2 * sends):
            frame = client.read()
            if frame.command == "RECEIPT":
                receipts += 1
            else:
                assert int(frame.body) < receipts
        assert receipts == sends


def test_a_refused_send_ends_its_transaction(store: Store) -> None:
    with talking(store) as (_, client):
        client.send(QUEUE, "question")
        client.subscribe(QUEUE, ack="client-individual")
        question = client.expect("MESSAGE").headers["ack"]
        client.request("BEGIN", {"transaction": "t"})
        client.request("BEGIN", {"transaction": "other"})
        client.send("/queue/A", "before", transaction="t")
        client.send("/queue/A", "other", transaction="other")
        client.request("ACK", {"id": question, "transaction": "t"})
        client.write("SEND", {"destination": "/queue/", "transaction": "t"})
        client.expect("ERROR")
        client.send("/queue/A", "behind", transaction="t")
        client.write("COMMIT", {"transaction": "t", "receipt": "c"})
        error = client.expect("ERROR")
        assert "The transaction t is rolled back" in error.headers["message"]
        assert error.headers["receipt-id"] == "c"
        client.request("COMMIT", {"transaction": "other"})
        assert [message.body for message in store.queue("A").recover()] == ["other"]
        assert store.queue("Q").message_count() == 1
        client.request("ACK", {"id": question})  # it is the client's again
        assert store.queue("Q").message_count() == 0


def test_a_refused_acknowledgement_ends_its_transaction(store: Store) -> None:
    with talking(store) as (_, client):
        client.request("BEGIN", {"transaction": "t"})
        client.send(QUEUE, "answer", transaction="t")
        client.write("ACK", {"id": "unknown", "transaction": "t"})
        client.expect("ERROR")
        client.write("COMMIT", {"transaction": "t"})
        assert "Unexpected ACK" in client.expect("ERROR").headers["message"]
        assert store.queue("Q").message_count() == 0


def test_what_a_transaction_has_acknowledged_can_be_acknowledged_in_it_again(store: Store) -> None:
    with talking(store) as (_, client):
        for body in "abcd":
            client.send(QUEUE, body)
        client.subscribe(QUEUE, ack="client")
        acks = [frame.headers["ack"] for frame in client.messages(4)]
        for transaction in ("t", "u"):
            client.request("BEGIN", {"transaction": transaction})
        client.request("ACK", {"id": acks[2], "transaction": "t"})
        client.request("ACK", {"id": acks[0], "transaction": "t"})
        client.write("ACK", {"id": acks[0]})
        client.expect("ERROR")
        client.write("ACK", {"id": acks[1], "transaction": "u"})
        client.expect("ERROR")
        client.request("COMMIT", {"transaction": "t"})
        assert [message.body for message in store.queue("Q").recover()] == ["d"]
        client.request("BEGIN", {"transaction": "t"})
        client.write("ACK", {"id": acks[0], "transaction": "t"})
        client.expect("ERROR")


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize("what", ["ACK", "NACK", "COMMIT", "auto", "auto large"])
def test_a_client_is_disconnected_if_its_acknowledgement_fails(
    store: Store, database: Database, what: str
) -> None:
    """The broker delivers the message again, to it or to others."""
    mode = "auto" if what.startswith("auto") else "client"
    with Served(store, min_large_message_size=1024) as served, Client(served.port) as client:
        client.subscribe(QUEUE, ack=mode)
        with refused(database, "DELETE ON ACTIVEMQ_MSGS"):
            client.send(QUEUE, bytes(2048 if what == "auto large" else 10))
            headers = client.expect("MESSAGE").headers
            if mode == "client":
                key = {"id": headers["ack"]}
                client.request("BEGIN", {"transaction": "t"})
                if what == "COMMIT":
                    client.request("ACK", {**key, "transaction": "t"})
                client.write(what, {"transaction": "t"} if what == "COMMIT" else key)
            while (frame := client.read()).command == "MESSAGE":
                """It has come again."""
            assert (frame.command, "refused" in frame.headers["message"]) == ("ERROR", True)
            assert client.ends()
        with Client(served.port) as another:
            another.subscribe(QUEUE)
            another.expect("MESSAGE")


def test_a_client_that_is_gone_when_it_is_to_be_told_the_end(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with Served(store) as served, Client(served.port) as client:
        [connection] = served.connector._connections
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def end() -> None:
            client.socket.close()  # with a reset, which the loop cannot see before this returns
            assert isinstance(connection, ClientConnection)
            gone = select.poll()
            gone.register(connection._transport.get_extra_info("socket"), 0)
            assert gone.poll(60_000)
            connection.end("the broker is stopping")

        served.call(end)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_messages_say_who_has_sent_them(store: Store) -> None:
    with talking(store, populate_user_id=True) as (served, client), Client(served.port, login="bob") as bob:
        bob.send(QUEUE, "one", JMSXUserID="alice")
        client.send(QUEUE, "two", JMSXUserID="alice")
        client.subscribe(QUEUE)
        one, two = client.messages(2)
        assert one.headers["JMSXUserID"] == "bob"
        assert "JMSXUserID" not in two.headers


def test_the_broker_says_what_it_is_by_a_name_that_clients_know(store: Store) -> None:
    with talking(store) as (_, client):
        server = client.connected.headers["server"]
        assert server.startswith("jdbcstore/")
        assert "activemq" in server.lower()
