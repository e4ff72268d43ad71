"""What becomes of a message between SEND and MESSAGE."""

from __future__ import annotations

import time

import pytest

from tests.interop.behaviours.conftest import Connect
from tests.support.interop.behaviours.conversation import Closed, Refused

ASTRAL = "zażółć 日本語 \U0001f600"


def test_receipt_after_send(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", {"persistent": "true"})
    session.subscribe(queue)
    assert session.bodies(1) == ["one"]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_order_of_one_producer(connect: Connect, queue: str, persistent: str) -> None:
    session = connect()
    bodies = [str(number) for number in range(100)]
    for body in bodies:
        session.post(queue, body, {"persistent": persistent})
    session.subscribe(queue)
    assert session.bodies(100) == bodies


def test_text_without_content_length(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "text")
    session.subscribe(queue)
    message = session.message()
    assert message.body == b"text"
    assert "content-length" not in message.headers


def test_bytes_with_content_length(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, b"\0one\0\xff\n\0", {"content-length": "8"})
    session.subscribe(queue)
    message = session.message()
    assert message.body == b"\0one\0\xff\n\0"
    assert message.headers["content-length"] == "8"


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_type_that_is_asked_for(connect: Connect, queue: str, kind: str) -> None:
    session = connect()
    session.send(queue, "text", {"content-length": "4", "amq-msg-type": kind})
    session.subscribe(queue)
    message = session.message()
    assert message.body == b"text"
    assert message.headers["amq-msg-type"] == kind
    assert message.headers["content-length"] == "4"


def test_unknown_type_is_refused(connect: Connect, queue: str) -> None:
    session = connect()
    with pytest.raises(Refused, match="Unsupported message type 'map'"):
        session.send(queue, "text", {"amq-msg-type": "map"})
    session.send(queue, "and goes on")


def test_unicode_in_body_and_headers(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, ASTRAL, {"custom": ASTRAL, "correlation-id": "zażółć", "persistent": "true"})
    session.subscribe(queue)
    message = session.message()
    assert message.body.decode() == ASTRAL
    assert message.headers["custom"] == ASTRAL
    assert message.headers["correlation-id"] == "zażółć"


def test_empty_body(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "", {"persistent": "true"})
    session.send(queue, "next", {"persistent": "true"})
    session.subscribe(queue)
    assert session.bodies(2) == ["", "next"]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_big_body(connect: Connect, queue: str, persistent: str) -> None:
    session = connect()
    body = bytes(range(256)) * 4096
    session.send(queue, body, {"content-length": str(len(body)), "persistent": persistent})
    session.subscribe(queue)
    assert session.message().body == body


def test_headers_of_a_message(connect: Connect, queue: str) -> None:
    session = connect()
    before = int(time.time() * 1000)
    session.send(queue, "one")
    subscription = session.subscribe(queue)
    headers = dict(session.message().headers)
    assert headers.pop("message-id")
    assert before - 1000 <= int(headers.pop("timestamp")) <= time.time() * 1000 + 1000
    assert headers == {
        "destination": queue,
        "subscription": subscription,
        "priority": "4",
        "expires": "0",
    }


def test_standard_headers_are_kept(connect: Connect, queue: str) -> None:
    session = connect()
    expires = str(int(time.time() * 1000) + 3_600_000)
    headers = {
        "priority": "7",
        "expires": expires,
        "correlation-id": "corr",
        "type": "a.type",
        "reply-to": "/topic/REPLIES",
        "timestamp": "1234567890123",
        "persistent": "true",
    }
    session.send(queue, "one", headers)
    session.subscribe(queue)
    assert headers.items() <= session.message().headers.items()


def test_other_headers_are_kept_as_they_are(connect: Connect, queue: str) -> None:
    session = connect()
    headers = {
        "custom": "value",
        "number": "7",
        "truth": "TRUE",
        "empty": "",
        "with space": " not trimmed ",
        "content-type": "text/plain;charset=utf-8",
    }
    session.send(queue, "one", headers)
    session.subscribe(queue)
    assert headers.items() <= session.message().headers.items()


def test_group_of_a_message_is_not_shown(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", {"JMSXGroupID": "group", "JMSXGroupSeq": "3"})
    session.subscribe(queue, headers={"selector": "JMSXGroupID = 'group' AND JMSXGroupSeq = 3"})
    assert not {"JMSXGroupID", "JMSXGroupSeq"} & session.message().headers.keys()


def test_headers_of_a_message_cannot_be_sent(connect: Connect, queue: str) -> None:
    session = connect()
    own = {"message-id": "mine", "redelivered": "true", "subscription": "mine", "JMSXUserID": "me"}
    session.send(queue, "one", own)
    subscription = session.subscribe(queue)
    headers = session.message().headers
    assert headers["message-id"] != "mine"
    assert headers["subscription"] == subscription
    assert not {"redelivered", "JMSXUserID", "receipt"} & headers.keys()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_headers_are_escaped(connect: Connect, queue: str, version: str) -> None:
    session = connect(version)
    value = "a:b\nc\\d\\n:"
    session.send(queue, "one", {"custom": value, "correlation-id": value})
    session.subscribe(queue)
    headers = session.message().headers
    assert headers["custom"] == value
    assert headers["correlation-id"] == value


def test_carriage_return_is_escaped(connect: Connect, queue: str) -> None:
    session = connect()
    session.send(queue, "one", {"custom": "a\rb\r\nc"})
    session.subscribe(queue)
    assert session.message().headers["custom"] == "a\rb\r\nc"


def test_colon_in_a_header_of_version_1_0(connect: Connect, queue: str) -> None:
    session = connect("1.0")
    session.send(queue, "one", {"custom": "a:b"})
    session.subscribe(queue)
    assert session.message().headers["custom"] == "a:b"


def test_each_message_has_an_id_of_its_own(connect: Connect, queue: str) -> None:
    sessions = [connect(), connect()]
    for session in sessions * 2:
        session.send(queue, "one")
    sessions[0].subscribe(queue)
    assert len({sessions[0].message().headers["message-id"] for _ in range(4)}) == 4


def test_destination_without_a_kind_is_a_queue(connect: Connect, name: str) -> None:
    session = connect()
    session.send(name, "one")
    session.subscribe(f"/queue/{name}")
    assert session.message().headers["destination"] == f"/queue/{name}"


@pytest.mark.parametrize(("given", "shown"), [("0", "0"), ("12", "9"), ("-1", "0")])
def test_priority_is_bounded(connect: Connect, queue: str, given: str, shown: str) -> None:
    session = connect()
    session.send(queue, "one", {"priority": given})
    session.subscribe(queue)
    assert session.message().headers["priority"] == shown


def test_expired_message_becomes_a_dead_letter(connect: Connect, queue: str, name: str) -> None:
    session = connect()
    session.send(queue, "gone", {"expires": "1234567890123", "persistent": "true", "case": name})
    session.send(queue, "next")
    session.subscribe(queue)
    assert session.bodies(1) == ["next"]
    session.subscribe("/queue/ActiveMQ.DLQ", headers={"selector": f"case = '{name}'"})
    message = session.message()
    assert message.body == b"gone"
    assert message.headers["expires"] == "0"
    assert message.headers["destination"] == "/queue/ActiveMQ.DLQ"
    assert message.headers["original-destination"] == queue
    assert message.headers["originalExpiration"] == "1234567890123"


def test_expired_message_that_is_not_persistent_is_gone(connect: Connect, queue: str, name: str) -> None:
    session = connect()
    session.send(queue, "gone", {"expires": "1234567890123", "case": name})
    session.send("/queue/ActiveMQ.DLQ", "sent there", {"case": name})
    session.subscribe("/queue/ActiveMQ.DLQ", headers={"selector": f"case = '{name}'"})
    assert session.bodies(1) == ["sent there"]


@pytest.mark.parametrize("header", ["priority", "expires", "timestamp"])
def test_header_that_is_no_number_is_not_accepted(connect: Connect, queue: str, header: str) -> None:
    session = connect()
    with pytest.raises((Closed, Refused)):  # ActiveMQ closes without a word
        session.send(queue, "one", {header: "many"})


def test_jms_names_of_headers(connect: Connect, queue: str) -> None:
    session = connect()
    jms = {"JMSType": "a.type", "JMSCorrelationID": "corr", "JMSPriority": "2", "JMSDeliveryMode": "1"}
    session.send(queue, "one", jms)
    session.subscribe(queue)
    headers = session.message().headers
    assert {"type": "a.type", "correlation-id": "corr", "priority": "2"}.items() <= headers.items()
    assert not jms.keys() & headers.keys()
