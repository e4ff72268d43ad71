"""Java's modified UTF-8: NUL as C0 80, astral characters as two surrogates of three bytes each."""

from __future__ import annotations

import re
from functools import lru_cache

from jdbcstore.errors import InvalidMessage
from jdbcstore.message.openwire.types import Malformed

_FOUR_BYTES = re.compile(rb"[\xf0-\xf4][\x80-\xbf]{3}")
_PAIR = re.compile(rb"\xed[\xa0-\xaf][\x80-\xbf]\xed[\xb0-\xbf][\x80-\xbf]")


def encode_utf(text: str) -> bytes:
    """The text's bytes. Half a surrogate pair is written as it is, as Java does."""
    if text.isascii():
        raw = text.encode("ascii")
    else:
        raw = text.encode("utf-8", "surrogatepass")
        if java_length(text) != len(text):
            raw = _FOUR_BYTES.sub(_split, raw)
    return raw.replace(b"\0", b"\xc0\x80") if b"\0" in raw else raw


def _split(match: re.Match[bytes]) -> bytes:
    return _as_pair(match[0])


@lru_cache(maxsize=4096)
def _as_pair(four_bytes: bytes) -> bytes:
    offset = ord(four_bytes.decode()) - 0x10000
    pair = chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))
    return pair.encode("utf-8", "surrogatepass")


def decode_utf(raw: bytes) -> str:
    """The text of these bytes; surrogates that do not pair up stay as they are."""
    try:
        return raw.decode()  # right for all but NUL and surrogates, which plain UTF-8 refuses
    except UnicodeDecodeError:
        pass
    raw = _PAIR.sub(_join, raw.replace(b"\xc0\x80", b"\0"))
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise Malformed(f"a text is not modified UTF-8 ({error.reason})") from None


def _join(match: re.Match[bytes]) -> bytes:
    return _as_character(match[0])


@lru_cache(maxsize=4096)
def _as_character(pair: bytes) -> bytes:
    units = pair.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass")
    return units.decode("utf-16-be").encode()


def java_length(text: str) -> int:
    """The number of Java chars, where an astral character counts twice."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def short_utf(text: str, what: str) -> bytes:
    """Two bytes of length, then the text; :class:`InvalidMessage` beyond 65535 bytes."""
    raw = encode_utf(text)
    if len(raw) > 0xFFFF:
        raise InvalidMessage(f"{what} takes {len(raw)} bytes, and OpenWire has room for 65535; shorten it")
    return len(raw).to_bytes(2, "big") + raw
