"""Messages as frames and frames as messages, as ActiveMQ's connector makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from jdbcstore import Destination, Message
from jdbcstore.broker.stomp.frames import Frame, FrameLimits, Version
from jdbcstore.broker.stomp.messages import DestinationNames, MessageFrames, java_text, to_message
from jdbcstore.broker.stomp.reader import StompFrameReader
from jdbcstore.errors import ProtocolError
from jdbcstore.message.ids import MessageId, ProducerId
from jdbcstore.message.message import BodyType
from jdbcstore.message.openwire import decode
from jdbcstore.message.values import Byte, Float, Long, Value
from tests.support.recordings import all_messages

NOW = 1_700_000_000_000
QUEUE = Destination.queue("Q")
ID = MessageId(ProducerId("ID:host-1-2-3:1", -1, 1), 7)


@dataclass
class Delivered:
    message: Message
    destination: Destination = QUEUE
    redelivered: bool = False


def received(
    body: bytes = b"", headers: dict[str, str] | None = None, names: DestinationNames | None = None
) -> Message:
    return to_message(
        Frame("SEND", {**(headers or {})}, body), QUEUE, ID, NOW, names or DestinationNames("ID:c:1")
    )


def shown(message: Message, *, redelivered: bool = False, names: DestinationNames | None = None) -> Frame:
    frames = MessageFrames(names or DestinationNames("ID:c:1"), Version.V1_2)
    reader = StompFrameReader(FrameLimits(), Version.V1_2)
    reader.feed(
        frames.encode(Delivered(message, redelivered=redelivered), frames.line("subscription", "s:1"))
    )
    frame = reader.read()
    assert frame is not None
    assert reader.read() is None
    return frame


def test_a_message_is_what_activemq_made_of_the_same_frames() -> None:
    recorded = {one.case: one for one in all_messages() if one.case.startswith("stomp-")}
    text, data = decode(recorded["stomp-text"].msg), decode(recorded["stomp-bytes"].msg)
    assert isinstance(text.body, str)
    sent = {
        "persistent": "true",
        "priority": "7",
        "correlation-id": "stomp-corr",
        "type": "stomp.type",
        "reply-to": "/queue/FX.REPLY",
        "custom": "va:lue",
        "timestamp": str(text.timestamp_ms),
    }
    # What its broker, and its connector, count for themselves; and where it was sent.
    own: dict[str, Any] = {"command_id": 0, "response_required": False, "broker_in_time_ms": NOW}
    own |= {"producer_id": None, "destination": QUEUE, "message_id": ID, "sequence": None}
    assert text.replace(**own) == received(text.body.encode(), sent)
    assert isinstance(data.body, bytes)
    sent = {
        "persistent": "true",
        "content-length": str(len(data.body)),
        "timestamp": str(data.timestamp_ms),
        "content-type": "application/octet-stream",
    }
    assert data.replace(**own) == received(data.body, sent)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, "a\0"),
        ({"content-length": "2"}, b"a\0"),
        ({"content-length": "2", "amq-msg-type": "TEXT"}, "a\0"),
        ({"amq-msg-type": "bytes"}, b"a\0"),
    ],
)
def test_the_headers_say_what_a_body_is(headers: dict[str, str], body: str | bytes) -> None:
    message = received(b"a\0", headers)
    assert message.body == body
    frame = shown(message)
    assert frame.body == b"a\0"
    assert frame.headers["content-length"] == "2"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"\xff", {}),
        (b"", {"amq-msg-type": "map"}),
        (b"", {"expires": "soon"}),
        (b"", {"timestamp": "9" * 19}),
        (b"", {"timestamp": "9" * 5000}),
        (b"", {"priority": ""}),
        (b"", {"JMSXGroupSeq": "99999999999"}),
    ],
)
def test_what_makes_no_message_is_refused(body: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(ProtocolError) as caught:
        received(body, headers)
    assert not caught.value.fatal


def test_a_message_is_shown_with_its_headers_and_properties() -> None:
    properties: dict[str, Value] = {"truth": True, "none": None, "big": Long(5), "half": 0.5, "x:y": "a\nb"}
    frame = shown(
        Message(
            "text", message_id=ID, timestamp_ms=5, expiration_ms=9, priority=3, correlation_id="c",
            jms_type="t", reply_to=Destination.topic("R"), user_id="u", properties=properties,
            group_id="g", original_destination=Destination.queue("O"),
        ),
        redelivered=True,
    )  # fmt: skip
    assert frame == Frame(
        "MESSAGE",
        {
            "subscription": "s:1", "message-id": str(ID), "destination": "/queue/Q", "timestamp": "5",
            "expires": "9", "priority": "3", "persistent": "true", "redelivered": "true",
            "correlation-id": "c", "type": "t", "reply-to": "/topic/R", "JMSXUserID": "u",
            "original-destination": "/queue/O",
            "truth": "true", "none": "null", "big": "5", "half": "0.5", "x:y": "a\nb",
        },
        b"text",
    )  # fmt: skip


def test_a_property_cannot_stand_for_a_header() -> None:
    frame = shown(
        Message("text", message_id=ID, properties={"subscription": "other", "destination": "d", "ack": "1"})
    )
    assert frame.headers["subscription"] == "s:1"
    assert frame.headers["destination"] == "/queue/Q"
    assert "ack" not in frame.headers


@pytest.mark.parametrize("body", [{"a": 1}, [1, 2], None])
def test_bodies_that_are_no_text_are_not_shown(body: object) -> None:
    assert shown(Message(body, message_id=ID)).body == b""  # type: ignore[arg-type]


def test_an_object_is_not_shown() -> None:
    assert shown(Message(b"java", body_type=BodyType.OBJECT, message_id=ID)).body == b""


def test_half_a_surrogate_pair_does_not_break_the_frame() -> None:
    frame = shown(Message("a\ud800b", message_id=ID, properties={"half": "\udc00"}))
    assert (frame.body, frame.headers["half"]) == (b"a?b", "?")


@pytest.mark.parametrize(
    ("text", "destination"),
    [
        ("/queue/A.B", Destination.queue("A.B")),
        (" /topic/A ", Destination.topic("A")),
        ("plain", Destination.queue("plain")),
        ("/queue/A?consumer.prefetchSize=1", Destination.queue("A")),
        ("/queue/A,/queue/B,/topic/C", Destination.queue("A,queue://B,topic://C")),
        ("/remote-temp-queue/ID:x:1:1", Destination.parse("temp-queue://ID:x:1:1")),
        ("/temp-queue/mine", Destination.parse("temp-queue://ID:c:1:1")),
    ],
)
def test_destinations_have_activemq_s_names(text: str, destination: Destination) -> None:
    assert DestinationNames("ID:c:1").destination(text) == destination


@pytest.mark.parametrize("text", ["/queue/", "/topic/ ", ",", "/queue/a,,/queue/b"])
def test_no_destination(text: str) -> None:
    with pytest.raises(ProtocolError, match="Illegal destination name"):
        DestinationNames("ID:c:1").destination(text)


def test_a_temporary_destination_has_its_own_name_for_its_connection_alone() -> None:
    names, others = DestinationNames("ID:c:1"), DestinationNames("ID:c:2")
    mine = names.destination("/temp-topic/x")
    assert names.destination("/temp-topic/x") is mine
    assert names.text(mine) == "/temp-topic/x"
    assert others.text(mine) == f"/remote-temp-topic/{mine.name}"
    assert others.destination("/temp-topic/x") != mine
    assert received(b"", {"reply-to": "/temp-topic/x"}, names).reply_to == mine


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (-1e-5, "-1.0E-5"),
        (100.0, "100.0"),
        (Float(0.1), "0.1"),
        (Float(1e10), "1.0E10"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Byte(-1), "-1"),
        ({"a": [1, "b"]}, "{a=[1, b]}"),
    ],
)
def test_properties_are_written_as_java_writes_them(value: Value, text: str) -> None:
    assert java_text(value) == text
