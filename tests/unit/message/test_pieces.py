"""Messages whose bodies are in pieces, and the bytes of these on their way."""

from __future__ import annotations

from random import Random

import pytest

from jdbcstore.broker.console.bodies import preview, shown_body
from jdbcstore.broker.large import FromText, ToText, WithoutLength
from jdbcstore.errors import BodyInPieces, CorruptMessage, InvalidMessage
from jdbcstore.message import openwire
from jdbcstore.message.destination import Destination
from jdbcstore.message.facts import facts_of
from jdbcstore.message.ids import MessageId
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.decoder import find_content
from jdbcstore.message.openwire.encoder import encode_utf
from jdbcstore.message.openwire.pieces import LargeBody, body_in_pieces, with_body_in_pieces, without_body

SMALL = Message(
    b"",
    destination=Destination.queue("Q"),
    message_id=MessageId.parse("ID:a-1:1:1:1"),
    correlation_id="c",
    properties={"a": 1},
    timestamp_ms=1,
)


def large(number: int = 1) -> Message:
    return with_body_in_pieces(SMALL, BodyType.TEXT, LargeBody.of(number, 3 << 30, 7))


@pytest.mark.parametrize("name", ["properties", "correlation_id", "redelivery_counter"])
def test_what_changes_keeps_the_body(name: str) -> None:
    changed = large().replace(**{name: {"properties": {"b": 2}, "correlation_id": "d"}.get(name, 3)})
    read = openwire.decode(openwire.encode(changed), sequence=9)
    assert getattr(read, name) == getattr(changed, name)
    assert body_in_pieces(read) is body_in_pieces(changed) is LargeBody.of(1, 0)
    assert (read.body_size, read.body_type, read.sequence) == (3 << 30, BodyType.TEXT, 9)


def test_another_body_takes_its_place() -> None:
    assert openwire.decode(openwire.encode(large().replace(body="new"))).body == "new"
    assert large() != large(2)
    assert large() != SMALL


def test_it_does_not_go_to_a_client_without_its_body() -> None:
    with pytest.raises(BodyInPieces):
        openwire.encode_for_wire(large(), 11)
    blob, _ = openwire.encode_for_wire(without_body(large()), 11)
    assert openwire.decode(blob).correlation_id == "c"


def test_each_damage_of_the_name_is_found() -> None:
    blob = openwire.encode(large())
    for at in range(12, 44):
        damaged = bytearray(blob)
        damaged[at] ^= 4
        with pytest.raises(CorruptMessage):
            openwire.decode(damaged)
    for size in range(12, len(blob)):
        with pytest.raises(CorruptMessage):
            openwire.decode(blob[:size])


def test_views_show_the_size() -> None:
    assert facts_of(large())["bytes_in_pieces"] == 3 << 30
    assert facts_of(large())["properties"] == {"a": 1}
    assert shown_body(large()).note == "3,221,225,472 bytes, stored in pieces, which are not shown"
    assert preview(large()) == "3,221,225,472 bytes in pieces"


@pytest.mark.parametrize("version", [6, 11])
def test_content_is_found_in_any_beginning(version: int) -> None:
    frame = openwire.encode(SMALL.replace(body=b"0123456789"), version=version)
    at, size = find_content(frame, version) or (0, 0)
    assert frame[at : at + 5] == b"\1\0\0\0\x0a"
    assert size == 10
    found = [find_content(frame[:end], version) for end in range(5, len(frame))]
    assert set(found) == {None, (at, 10)}
    assert found.index((at, 10)) == at


def parts(data: bytes, random: Random) -> list[bytes]:
    cuts = sorted(random.sample(range(len(data) + 1), 5))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.parametrize("seed", range(40))
def test_strings_pass_in_any_parts(seed: int) -> None:
    random = Random(seed)
    text = "".join(random.choice("aż\0\u20ac\N{GRINNING FACE}\ud83d") for _ in range(60))
    stored = encode_utf(text)
    to_text, skip = ToText(), WithoutLength()
    received = b"".join(to_text.feed(skip.feed(part)) for part in parts(b"size" + stored, random))
    received += to_text.end()
    assert received == text.encode(errors="replace")
    assert to_text.size == len(received)
    sent, from_text = text.replace("\ud83d", "").encode(), FromText()
    converted = b"".join(from_text.feed(part) for part in parts(sent, random)) + from_text.feed(
        b"", final=True
    )
    assert converted == encode_utf(sent.decode())


def test_a_string_that_is_none_is_refused() -> None:
    from_text = FromText()
    from_text.feed("ż".encode()[:1])
    with pytest.raises(InvalidMessage):
        from_text.feed(b"", final=True)
