"""What a STOMP client says over a socket, and what becomes of it."""

from __future__ import annotations

import pytest

from jdbcstore import Store
from tests.broker.stomp.serving import Client, Served, talking

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


def test_what_is_wrong_is_told_and_the_connection_goes_on(store: Store) -> None:
    with talking(store) as (_, client):
        client.write("SEND", {"destination": "/queue/", "receipt": "r"})
        error = client.expect("ERROR")
        assert error.headers["receipt-id"] == "r"
        client.send(QUEUE, "goes on")


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
