from __future__ import annotations

import enum
import json
import math
import struct
from collections import OrderedDict
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.errors import InvalidMessage
from jdbcstore.message.values import Byte, Char, Float, Long, Short, checked, identical


@pytest.mark.parametrize(
    ("integer", "low", "high"),
    [(Byte, -128, 127), (Short, -32768, 32767), (Long, -(1 << 63), (1 << 63) - 1)],
)
def test_integers_have_java_s_range(integer: type[int], low: int, high: int) -> None:
    assert integer(low) == low
    assert integer(high) == high
    for beyond in (low - 1, high + 1):
        with pytest.raises(InvalidMessage, match="beyond a Java"):
            integer(beyond)


def test_they_behave_as_the_type_they_extend() -> None:
    assert Byte(5) == 5 == Long(5)
    assert hash(Byte(5)) == hash(5)
    assert Byte(5) + 1 == 6
    assert {Short(7)} == {7}
    assert Char("x") == "x"
    assert Float(1.5) == 1.5
    assert hash(Float(1.5)) == hash(1.5)
    assert json.dumps([Byte(5), Float(1.5), Char("x"), Long(9)]) == '[5, 1.5, "x", 9]'
    assert f"{Byte(5)} {Short(6)} {Long(7)} {Float(1.5)} {Char('x')}" == "5 6 7 1.5 x"
    assert str(Byte(5)) == "5"
    assert str(Float(1.5)) == "1.5"


def test_reprs_name_the_type() -> None:
    assert [repr(value) for value in (Byte(5), Short(6), Long(7), Float(1.5), Char("x"))] == [
        "Byte(5)",
        "Short(6)",
        "Long(7)",
        "Float(1.5)",
        "Char('x')",
    ]
    assert repr(Float(math.nan)) == "Float.from_bits(0x7fc00000)"


@given(st.integers(0, 0xFFFF_FFFF))
def test_a_float_keeps_its_bits(bits: int) -> None:
    value = Float.from_bits(bits)
    assert value.bits == bits
    (plain,) = struct.unpack(">f", struct.pack(">I", bits))
    assert value == plain or (math.isnan(value) and math.isnan(plain))


@given(st.floats(width=32))
def test_a_float_is_rounded_to_32_bits(value: float) -> None:
    assert Float(value).bits == struct.unpack(">I", struct.pack(">f", value))[0]


def test_floats_beyond_32_bits() -> None:
    assert Float(0.1) != 0.1
    assert Float(math.inf).bits == 0x7F800000
    with pytest.raises(InvalidMessage, match="beyond a Java float"):
        Float(1e39)
    with pytest.raises(AttributeError):
        Float(1.0).bits = 5


@pytest.mark.parametrize("text", ["", "ab", "\U0001f600"])
def test_a_char_is_one_code_unit(text: str) -> None:
    with pytest.raises(InvalidMessage, match="not one Java char"):
        Char(text)
    assert Char("\ud800") == "\ud800"


class Colour(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, None),
        (True, True),
        (Byte(1), Byte(1)),
        (1, 1),
        ((1 << 31) - 1, (1 << 31) - 1),
        (1 << 31, Long(1 << 31)),
        (-(1 << 31) - 1, Long(-(1 << 31) - 1)),
        (Number.ONE, 1),
        (Colour.RED, "red"),
        (1.5, 1.5),
        (Float(1.5), Float(1.5)),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        ((1, "a"), [1, "a"]),
        (OrderedDict(a=(1,)), {"a": [1]}),
    ],
)
def test_checked(given: object, stored: object) -> None:
    assert identical(checked(given), stored)


def test_checked_copies() -> None:
    inner: list[Any] = [1]
    outer: dict[str, Any] = {"inner": inner}
    copy = checked(outer)
    inner.append(2)
    outer["more"] = 3
    assert copy == {"inner": [1]}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (1 << 63, "beyond a Java long"),
        (-(1 << 63) - 1, "beyond a Java long"),
        (1j, "a complex cannot be stored"),
        (Fraction(1, 2), "a Fraction cannot be stored"),
        ({1, 2}, "a set cannot be stored"),
        ({1: "a"}, "1 is not a name"),
        ({"": "a"}, "'' is not a name"),
        ([[object()]], "a object cannot be stored"),
    ],
)
def test_what_cannot_be_stored(value: object, match: str) -> None:
    with pytest.raises(InvalidMessage, match=match):
        checked(value)


def test_nesting_is_bounded() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidMessage, match="nested more than 100 deep"):
        checked(endless)
    endless_map: dict[str, Any] = {}
    endless_map["self"] = endless_map
    with pytest.raises(InvalidMessage, match="nested more than 100 deep"):
        checked(endless_map)


def test_identical_is_by_type_and_bits() -> None:
    assert identical(math.nan, math.nan)
    assert identical([{"a": Float(math.nan)}], [{"a": Float(math.nan)}])
    assert not identical(Float.from_bits(0x7FC00001), Float(math.nan))
    assert not identical(0.0, -0.0)
    assert not identical(1, True)
    assert not identical(1, Byte(1))
    assert not identical({"a": 1}, {"b": 1})
    assert not identical([1], [1, 1])
    assert not identical("a", Char("a"))
