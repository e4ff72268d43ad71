"""What a STOMP client gets of a large body, which another client has written."""

from __future__ import annotations

import asyncio
import itertools
import struct
import zlib
from collections.abc import AsyncIterator

import pytest

from jdbcstore.broker.large import LargeTransfers
from jdbcstore.errors import CorruptMessage
from jdbcstore.message.message import BodyType, Message
from jdbcstore.message.openwire.pieces import LargeBody

BODY = bytes(range(256)) * 40
DEFLATED = zlib.compress(BODY)
_numbers = itertools.count(1)


class Given(LargeTransfers):
    """Bodies that are just there, in parts of this size."""

    def __init__(self, content: bytes, size: int) -> None:
        self.parts = [content[at : at + size] for at in range(0, len(content), size)]

    async def content(self, body: LargeBody) -> AsyncIterator[bytes]:  # noqa: ARG002
        for part in self.parts:
            yield part


def sized(content: bytes, more: int = 0) -> bytes:
    return struct.pack(">i", len(content) + more) + content


async def received(
    content: bytes, kind: BodyType, *, compressed: bool = True, size: int = 100, limit: int | None = None
) -> bytes:
    empty = "" if kind is BodyType.TEXT else b""
    message, body = Message(empty, compressed=compressed), LargeBody.of(next(_numbers), len(content))
    transfers = Given(content, size)
    parts = [part async for part in transfers.for_client(message, body, limit)]
    assert all(parts)
    if compressed:
        assert await transfers.size_for_client(message, body, limit) == sum(map(len, parts))
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 3, 100, 1 << 20])
def test_a_whole_body_is_inflated(size: int) -> None:
    text = "zażółć\0" * 900
    stored = text.encode().replace(b"\0", b"\xc0\x80")
    deflated = struct.pack(">i", len(BODY)) + zlib.compress(BODY + b"the rest of a buffer")
    assert asyncio.run(received(deflated, BodyType.BYTES, size=size)) == BODY
    assert asyncio.run(received(zlib.compress(sized(stored)), BodyType.TEXT, size=size)) == text.encode()
    assert asyncio.run(received(sized(stored), BodyType.TEXT, compressed=False, size=size)) == text.encode()


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (struct.pack(">i", len(BODY)) + DEFLATED[:-5], BodyType.BYTES, "too early"),
        (struct.pack(">i", len(BODY)) + DEFLATED + b"junk" * 100, BodyType.BYTES, "after its end"),
        (struct.pack(">i", len(BODY) + 1) + DEFLATED, BodyType.BYTES, "too early"),
        (struct.pack(">i", -5) + DEFLATED, BodyType.BYTES, "should have -5 bytes"),
        (DEFLATED[:2], BodyType.BYTES, "too early"),
        (struct.pack(">i", len(BODY)) + b"not deflated", BodyType.BYTES, "is damaged"),
        (zlib.compress(sized(b"a text"))[:-5], BodyType.TEXT, "too early"),
        (zlib.compress(sized(b"a text")) + b"junk", BodyType.TEXT, "after its end"),
        (zlib.compress(sized(b"a text", 1)), BodyType.TEXT, "length in front"),
        (zlib.compress(b"\0\0\0"), BodyType.TEXT, "length in front"),
    ],
    ids=[
        "cut",
        "junk",
        "more",
        "negative",
        "short",
        "other",
        "text-cut",
        "text-junk",
        "text-more",
        "text-short",
    ],
)
def test_a_damaged_body_is_not_taken_for_whole(content: bytes, kind: BodyType, reason: str) -> None:
    for size in (3, 1 << 20):
        with pytest.raises(CorruptMessage, match=reason):
            asyncio.run(received(content, kind, size=size))


def test_a_text_of_another_length_is_damaged() -> None:
    for more in (-1, 1):
        with pytest.raises(CorruptMessage, match="length in front"):
            asyncio.run(received(sized(b"a text", more), BodyType.TEXT, compressed=False))


def test_others_have_their_turn_while_much_comes_out_of_a_little() -> None:
    """One piece may become hundreds of parts; the loop is not held up by them, even if they are not used."""

    async def turns(length: int) -> int:
        size, count = 16 << 20, 0
        content = struct.pack(">i", length) + zlib.compress(bytes(size))

        async def others() -> None:
            nonlocal count
            while True:
                await asyncio.sleep(0)
                count += 1

        task = asyncio.create_task(others())
        assert await received(content, BodyType.BYTES, size=1 << 20) == bytes(length)
        with pytest.raises(CorruptMessage, match="exceeds its limit"):
            await received(content, BodyType.BYTES, size=1 << 20, limit=size - 1)
        task.cancel()
        return count

    assert asyncio.run(turns(16 << 20)) > 150
    assert asyncio.run(turns(1)) > 150
