"""The exact bytes of texts and tagged values."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.message.openwire.content import decode_map, decode_utf, decode_values
from jdbcstore.message.openwire.encoder import encode_map, encode_utf, encode_values, java_length
from jdbcstore.message.openwire.wire_format import Malformed
from jdbcstore.message.values import Byte, Char, Float, Long, Short, Value, checked, checked_map, identical
from tests.support.openwire.strategies import any_character, maps, paired, scalars


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("", b""),
        ("abc", b"abc"),
        ("\x7f", b"\x7f"),
        ("\0", b"\xc0\x80"),
        ("a\0b", b"a\xc0\x80b"),
        ("\x80", b"\xc2\x80"),
        ("\u07ff", b"\xdf\xbf"),
        ("\u0800", b"\xe0\xa0\x80"),
        ("\uffff", b"\xef\xbf\xbf"),
        ("\U0001f600", b"\xed\xa0\xbd\xed\xb8\x80"),
        ("\U0010ffff", b"\xed\xaf\xbf\xed\xbf\xbf"),
        ("\ud800", b"\xed\xa0\x80"),
        ("\udc00\ud800", b"\xed\xb0\x80\xed\xa0\x80"),
        ("\0\U00010000\0", b"\xc0\x80\xed\xa0\x80\xed\xb0\x80\xc0\x80"),
    ],
)
def test_modified_utf_8(text: str, encoded: bytes) -> None:
    assert encode_utf(text) == encoded
    assert decode_utf(encoded) == text


@given(st.text(any_character).map(paired))
def test_every_text_comes_back(text: str) -> None:
    encoded = encode_utf(text)
    assert decode_utf(encoded) == text
    assert 0 not in encoded
    assert max(encoded, default=0) < 0xF0
    assert java_length(text) == sum(1 + (character > "\uffff") for character in text)


def test_a_pair_of_halves_is_one_character() -> None:
    assert encode_utf("\ud83d\ude00") == encode_utf("\U0001f600")
    assert decode_utf(encode_utf("\ud83d\ude00")) == "\U0001f600"


@pytest.mark.parametrize("raw", [b"\xff", b"\x80", b"\xc3", b"\xe0\x80", b"\xc1\x81", b"a\xed\xa0"])
def test_what_is_no_text(raw: bytes) -> None:
    with pytest.raises(Malformed, match="not modified UTF-8"):
        decode_utf(raw)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (None, b"\0"),
        (True, b"\1\1"),
        (False, b"\1\0"),
        (Byte(-2), b"\2\xfe"),
        (Char("€"), b"\3\x20\xac"),
        (Char("\ud800"), b"\3\xd8\0"),
        (Short(-300), b"\4\xfe\xd4"),
        (5, b"\5\0\0\0\5"),
        (-(1 << 31), b"\5\x80\0\0\0"),
        (Long(5), b"\6\0\0\0\0\0\0\0\5"),
        (Long(1 << 31), b"\6\0\0\0\0\x80\0\0\0"),
        (-2.25, b"\7\xc0\2\0\0\0\0\0\0"),
        (Float(1.5), b"\x08\x3f\xc0\0\0"),
        (Float.from_bits(0x7F800001), b"\x08\x7f\x80\0\1"),
        ("żółw", b"\x09\0\x07\xc5\xbc\xc3\xb3\xc5\x82w"),
        (b"\0\1", b"\x0a\0\0\0\2\0\1"),
        ({"a": None}, b"\x0b\0\0\0\1\0\1a\0"),
        ([True, []], b"\x0c\0\0\0\2\1\1\x0c\0\0\0\0"),
    ],
)
def test_tagged_values(value: Value, encoded: bytes) -> None:
    assert encode_map({"k": value}) == b"\0\0\0\1\0\1k" + encoded
    assert identical(decode_map(b"\0\0\0\1\0\1k" + encoded), {"k": value})
    assert encode_values((value, value)) == encoded * 2
    assert identical(decode_values(encoded * 2), (value, value))


@pytest.mark.parametrize("nan", [0x7FF0000000000001, 0x7FF8000000000000, 0xFFF0DEADBEEF0001])
def test_every_nan_keeps_its_bits(nan: int) -> None:
    encoded = b"\7" + struct.pack(">Q", nan)
    assert encode_values(decode_values(encoded)) == encoded


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("a" * 8190, 9),
        ("a" * 8191, 13),
        ("€" * 8190, 9),
        ("€" * 8191, 13),
        ("\U0001f600" * 4095, 9),  # 8190 Java chars
        ("\U0001f600" * 4096, 13),  # 8192 of them
        ("\U0001f600" * 4095 + "a", 13),
    ],
)
def test_long_strings_have_a_tag_of_their_own(text: str, tag: int) -> None:
    encoded = encode_values((text,))
    raw = encode_utf(text)
    assert encoded == bytes([tag]) + struct.pack(">H" if tag == 9 else ">i", len(raw)) + raw
    assert decode_values(encoded) == (text,)


@given(maps)
def test_every_map_comes_back(values: dict[str, Value]) -> None:
    stored = checked_map(values)
    decoded = decode_map(encode_map(stored))
    assert identical(decoded, stored)
    assert list(decoded) == list(stored)  # the order is kept, so that the bytes are


@given(st.lists(scalars))
def test_every_stream_comes_back(values: list[Value]) -> None:
    stored = tuple(checked(value) for value in values)
    assert identical(decode_values(encode_values(stored)), stored)
