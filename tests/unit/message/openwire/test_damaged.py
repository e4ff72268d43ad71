"""Whatever is in the MSG column: a message, or CorruptMessage, in bounded time and memory."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore.errors import CorruptMessage
from jdbcstore.message.destination import Destination
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire import decode, encode, wire_format
from tests.support.openwire.damaged import look_into
from tests.support.recordings import all_messages

pytestmark = pytest.mark.slow

ROWS = [row.msg for row in all_messages() if len(row.msg) < 4000]
MEBIBYTE = 1024 * 1024


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """The block allocates no more than this many bytes at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def framed(rest: bytes) -> bytes:
    return struct.pack(">i", len(rest)) + rest


@given(st.binary(max_size=300))
def test_random_bytes(blob: bytes) -> None:
    look_into(blob)


@given(st.integers(23, 29), st.binary(max_size=300))
def test_random_bytes_in_a_frame(number: int, blob: bytes) -> None:
    look_into(framed(bytes([number]) + blob))


@settings(max_examples=1000)
@given(st.sampled_from(ROWS), st.data())
def test_damaged_rows(row: bytes, data: st.DataObject) -> None:
    """Bytes changed, cut out and put in; with a fitting size, so that it is not all that is noticed."""
    rest = bytearray(row[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(rest) - 1))
        action = data.draw(st.sampled_from(["set", "flip", "cut", "insert", "number"]))
        if action == "set":
            rest[at] = data.draw(st.sampled_from([0, 1, 2, 11, 12, 13, 0x6E, 0x7B, 0x7F, 0x80, 0xC0, 0xFF]))
        elif action == "flip":
            rest[at] ^= 1 << data.draw(st.integers(0, 7))
        elif action == "cut":
            del rest[at : at + data.draw(st.integers(1, 20))]
        elif action == "insert":
            rest[at:at] = data.draw(st.binary(min_size=1, max_size=20))
        else:
            rest[at : at + 4] = struct.pack(">i", data.draw(st.integers(-(1 << 31), (1 << 31) - 1)))
        if not rest:
            break
    look_into(framed(bytes(rest)))


@pytest.mark.parametrize("row", ROWS[::7])
def test_every_truncation(row: bytes) -> None:
    for end in range(len(row)):
        assert look_into(row[:end]) is None
        assert look_into(framed(row[4:end])) is None


@pytest.mark.parametrize("row", ROWS)
def test_bytes_behind_the_message(row: bytes) -> None:
    for garbage in (b"\0", b"\1", b"\0\0", b"garbage"):
        assert look_into(row + garbage) is None
        with pytest.raises(CorruptMessage, match="it is followed by"):
            decode(framed(row[4:] + garbage))


def test_null() -> None:
    with pytest.raises(CorruptMessage, match="MSG column is NULL"):
        decode(None, sequence=1)


def test_the_error_names_the_row() -> None:
    with pytest.raises(CorruptMessage, match=r"\(ID 9 of queue://ORDERS\).*its size field says") as caught:
        decode(b"\0\0\0\7\x1cnot this", sequence=9, container="queue://ORDERS")
    assert caught.value.reason == "its size field says 7 bytes, and 9 follow"
    assert caught.value.__cause__ is not None


def test_the_error_of_a_body_names_the_row() -> None:
    message = with_content(BodyType.TEXT, b"\0\0\0\7short", sequence=3)
    with pytest.raises(
        CorruptMessage, match=r"\(ID 3 of topic://T\): the text should have 7 bytes and has 5"
    ):
        _ = message.body
    assert message.jms_type == "kept"  # the headers are as good as before


def with_content(
    kind: BodyType, content: bytes, *, compressed: bool = False, sequence: int | None = None
) -> Message:
    """A stored message with these bytes for a body."""
    blob = encode(
        Message(b"X" * len(content), destination=Destination.topic("T"), jms_type="kept", compressed=False)
    )
    numbers = {kind: number for number, kind in enumerate(TYPES, 23)}
    blob = blob.replace(b"X" * len(content), content)
    blob = blob[:4] + bytes([numbers[kind]]) + blob[5:]
    if compressed:
        at = blob.index(content) + len(content) + 3  # behind no properties, structure and consumer
        blob = blob[:at] + b"\1" + blob[at + 1 :]
    return decode(blob, sequence=sequence)


TYPES = (BodyType.MESSAGE, BodyType.BYTES, BodyType.MAP, BodyType.OBJECT, BodyType.STREAM, BodyType.TEXT)


def refuses(message: Message, match: str) -> None:
    with pytest.raises(CorruptMessage, match=match):
        _ = message.body


HUGE = b"\x7f\xff\xff\xff"


@pytest.mark.parametrize(
    ("kind", "content", "match"),
    [
        (BodyType.TEXT, HUGE + b"x", "2147483647 bytes"),
        (BodyType.TEXT, b"\xff\xff\xff\xfex", "-2 bytes"),
        (BodyType.TEXT, b"abc", "ends within its length"),
        (BodyType.TEXT, b"\0\0\0\2\xc3\x28", "not modified UTF-8"),
        (BodyType.MAP, HUGE, "2147483647 elements"),
        (BodyType.MAP, b"\0\0\0\1\xff\xffab", "a name goes beyond"),
        (BodyType.MAP, b"\0\0\0\1\0\1a\x0c" + HUGE, "2147483647 elements"),
        (BodyType.MAP, b"\0\0\0\1\0\1a\x0c\xff\xff\xff\xff", "-1 elements"),
        (BodyType.MAP, b"\0\0\0\1\0\1a\x0d" + HUGE, "does not fit"),
        (BodyType.MAP, b"\0\0\0\1\0\1a\x0a\xff\xff\xff\xfe", "does not fit"),
        (BodyType.MAP, b"\0\0\0\1\0\1a\x0e", "14 is not the tag"),
        (BodyType.MAP, b"\0\0\0\1\0\1a\0more", "followed by 4 more bytes"),
        (BodyType.MAP, b"\0\0\0\1\0\1a\6\0", "a map ends too early"),
        (BodyType.STREAM, b"\5\0", "a stream ends too early"),
        (BodyType.STREAM, b"\x09\0\5ab", "does not fit"),
        (BodyType.STREAM, b"\x63", "99 is not the tag"),
    ],
)
def test_damaged_bodies(kind: BodyType, content: bytes, match: str) -> None:
    with at_most(MEBIBYTE):
        refuses(with_content(kind, content), match)


def test_null_maps_and_texts() -> None:
    assert with_content(BodyType.TEXT, b"\xff\xff\xff\xff").body is None
    assert with_content(BodyType.MAP, b"\xff\xff\xff\xff").body == {}
    assert with_content(BodyType.MAP, b"\0\0\0\1\0\1a\x0b\xff\xff\xff\xff").body == {"a": None}


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"abc", "end within their length"),
        (b"\0\0\0\5" + zlib.compress(b"abc"), "should have 5 bytes and inflates to 3"),
        (b"\xff\xff\xff\xff" + zlib.compress(b"abc"), "should have -1 bytes"),
        (b"\0\0\0\3" + zlib.compress(b"abc")[:-2], "ends too early"),
        (b"\0\0\0\3" + zlib.compress(b"abc") + b"more", "has bytes after its end"),
        (b"\0\0\0\3" + b"not deflated", "is damaged"),
        (b"\0\0\0\3", "ends too early"),
    ],
)
def test_damaged_compressed_bytes(content: bytes, match: str) -> None:
    refuses(with_content(BodyType.BYTES, content, compressed=True), match)


def test_compressed_bytes_end_where_the_length_says() -> None:
    content = b"\0\0\0\3" + zlib.compress(b"abc" + bytes(1000))
    assert with_content(BodyType.BYTES, content, compressed=True).body == b"abc"


@pytest.mark.parametrize(
    "kind", [BodyType.TEXT, BodyType.BYTES, BodyType.OBJECT, BodyType.MAP, BodyType.STREAM]
)
def test_a_zip_bomb_is_not_inflated(kind: BodyType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "MAX_INFLATED", MEBIBYTE)
    monkeypatch.setattr(wire_format, "MAX_INFLATED_VALUES", MEBIBYTE)
    bomb = zlib.compress(bytes(64 * MEBIBYTE))
    if kind is BodyType.BYTES:
        bomb = HUGE + bomb
    message = with_content(kind, bomb, compressed=True)
    with at_most(4 * MEBIBYTE):
        refuses(message, "inflates to more than 1048576 bytes")


def test_as_much_as_the_limit_is_inflated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "MAX_INFLATED", 100)
    message = with_content(BodyType.OBJECT, zlib.compress(bytes(100)), compressed=True)
    assert message.body == bytes(100)


def nested(depth: int, opening: bytes, innermost: bytes) -> bytes:
    return b"\0\0\0\1\0\1a" + opening * depth + innermost


@pytest.mark.parametrize("opening", [b"\x0b\0\0\0\1\0\1a", b"\x0c\0\0\0\1"], ids=["maps", "lists"])
def test_deep_nesting(opening: bytes) -> None:
    assert with_content(BodyType.MAP, nested(99, opening, b"\0")).body
    for depth in (100, 2000, 50000):
        refuses(with_content(BodyType.MAP, nested(depth, opening, b"\0")), "nested more than 100 deep")


def test_damaged_properties() -> None:
    blob = encode(Message("x", properties={"name": "VALUE"}))
    message = decode(blob.replace(b"\x09\0\5VALUE", b"\x0c\0\0\1VALU"), sequence=8)
    with pytest.raises(CorruptMessage, match=r"a map or list of \d+ elements does not fit"):
        _ = message.properties
    assert message.body == "x"


def test_messages_nested_without_end() -> None:
    """Each is the data structure of the one around it."""
    head = encode(Message("x"))[4:]
    before = head[: head.index(b"\0\0\0\1x") + 5] + b"\0"  # up to no properties
    blob = framed((before + b"\1") * 5000)
    assert look_into(blob) is None
    with pytest.raises(CorruptMessage, match="nested more than 8 deep"):
        decode(blob)


def test_a_path_longer_than_the_row() -> None:
    blob = encode(Message("x", broker_path=()))
    path = blob.index(b"\1\0\0", blob.index(b"x") + 1)
    with at_most(MEBIBYTE), pytest.raises(CorruptMessage, match="a path of 32767 brokers"):
        decode(blob[:path] + b"\1\x7f\xff" + blob[path + 3 :])


@pytest.mark.parametrize("name", [b"", b"   ", b"a\0b", b"?option=1", b",,"])
def test_destinations_without_a_name(name: bytes) -> None:
    blob = encode(Message("x", destination=Destination.queue("N" * max(len(name), 1))))
    encoded = len(name).to_bytes(2, "big") + name
    blob = blob.replace(b"\0%c%b" % (max(len(name), 1), b"N" * max(len(name), 1)), encoded)
    with pytest.raises(CorruptMessage, match="its destination has no valid name"):
        decode(framed(blob[4:]))


@pytest.mark.parametrize("number", [0, 22, 30, 100, 255])
def test_other_objects_than_messages(number: int) -> None:
    with pytest.raises(CorruptMessage, match=f"{number} is not the type of a message"):
        decode(framed(bytes([number]) + bytes(80)))


def test_an_object_in_the_wrong_place() -> None:
    blob = encode(Message("x", destination=Destination.queue("Q")))
    with pytest.raises(CorruptMessage, match="type 124 instead of a Destination"):
        decode(blob.replace(b"\1\x64\1\0\1Q", b"\1\x7c\1\0\1Q"))
    with pytest.raises(CorruptMessage, match="77 is not the type of an object"):
        decode(blob.replace(b"\1\x64\1\0\1Q", b"\1\x4d\1\0\1Q"))
    with pytest.raises(CorruptMessage, match="a name is missing"):
        decode(framed(blob.replace(b"\1\x64\1\0\1Q", b"\1\x64\0")[4:]))


@pytest.mark.parametrize(("stored", "read"), [(-128, 0), (-1, 0), (0, 0), (9, 9), (10, 9), (127, 9)])
def test_priorities_beyond_jms_are_the_nearest(stored: int, read: int) -> None:
    """As ActiveMQ does when it loads them."""
    blob = encode(Message("x", priority=5, expiration_ms=0x1122334455667788))
    at = blob.index(bytes.fromhex("1122334455667788")) + 8
    message = decode(blob[:at] + struct.pack(">b", stored) + blob[at + 1 :])
    assert message.priority == read
