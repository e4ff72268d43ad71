"""Java's primitive types, as values of properties, map bodies and stream bodies.

Plain Python values need no wrapping: an ``int`` is stored as a Java int if it fits into 32 bits and otherwise
as a long, a ``float`` as a double, bit by bit. The classes here are the Java types without a Python type.
They compare and hash like the type that they extend, and raise
:class:`~jdbcstore.errors.InvalidMessage` for a value out of range.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from math import isfinite, isnan
from struct import Struct
from typing import Self, TypeAlias

from jdbcstore.errors import InvalidMessage

MAX_NESTING = 100
"""Greatest depth of nested maps and lists."""

_FLOAT = Struct(">f")
_INT = Struct(">I")
_DOUBLE = Struct(">d")


class _Integer(int):
    __slots__ = ()
    _bits = 64

    def __new__(cls, value: int) -> Self:
        number = super().__new__(cls, value)
        limit = 1 << (cls._bits - 1)
        if not -limit <= number < limit:
            raise InvalidMessage(f"{number} is beyond a Java {cls.__name__.lower()} ({cls._bits} bits)")
        return number

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    __str__ = int.__repr__


class Byte(_Integer):
    """A Java byte: -128 to 127."""

    __slots__ = ()
    _bits = 8


class Short(_Integer):
    """A Java short: -32768 to 32767."""

    __slots__ = ()
    _bits = 16


class Long(_Integer):
    """A Java long, even if the number fits into an int."""

    __slots__ = ()


class Float(float):
    """A Java float: the value is rounded to 32 bits. ``bits`` are the raw bits, even of a NaN.

    :raises InvalidMessage: the value is out of range
    """

    __slots__ = ("bits",)

    bits: int

    def __new__(cls, value: float) -> Self:
        try:
            return cls.from_bits(_INT.unpack(_FLOAT.pack(value))[0])
        except OverflowError:
            raise InvalidMessage(f"{value!r} is beyond a Java float; use a plain float (a double)") from None

    @classmethod
    def from_bits(cls, bits: int) -> Self:
        """Make the float of these 32 bits, as Java's ``intBitsToFloat``."""
        self = super().__new__(cls, _FLOAT.unpack(_INT.pack(bits))[0])
        object.__setattr__(self, "bits", bits)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Float cannot be changed: {name}")

    def __repr__(self) -> str:
        return f"Float.from_bits({self.bits:#010x})" if isnan(self) else f"Float({float(self)!r})"

    __str__ = float.__repr__


class Char(str):
    """A Java char: one UTF-16 code unit, possibly an unpaired surrogate.

    :raises InvalidMessage: the string is longer or shorter, or its character takes two code units
    """

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        if len(value) != 1 or value > "\uffff":
            raise InvalidMessage(f"{value!r} is not one Java char; use a str")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"Char({super().__repr__()})"


Value: TypeAlias = bool | int | float | str | bytes | dict[str, "Value"] | list["Value"] | None
"""A value of a property or an element of a map or stream body."""

_KEPT = frozenset({type(None), bool, float, str, bytes, Byte, Short, Long, Float, Char})


def checked(value: object, *, nesting: int = MAX_NESTING) -> Value:
    """Return the value as it is stored, with maps and lists copied.

    :raises InvalidMessage: it does not have a Java type, is out of range, or is nested too deep
    """
    kind = type(value)
    if kind in _KEPT:
        return value  # type: ignore[return-value]
    if isinstance(value, int):
        return _checked_int(int(value))
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, Mapping | list | tuple):
        raise InvalidMessage(
            f"a {kind.__name__} cannot be stored; use None, bool, int, float, str, bytes, a mapping,"
            " a list, or a type of jdbcstore.message.values"
        )
    if nesting == 0:
        raise InvalidMessage(f"maps and lists are nested more than {MAX_NESTING} deep; flatten them")
    if isinstance(value, Mapping):
        return checked_map(value, nesting=nesting)
    return [checked(item, nesting=nesting - 1) for item in value]


def checked_map(mapping: Mapping[str, object], *, nesting: int = MAX_NESTING) -> dict[str, Value]:
    """Return a copy of the mapping, names and values checked as by :func:`checked`."""
    result: dict[str, Value] = {}
    for name, value in mapping.items():
        if not isinstance(name, str) or not name:
            raise InvalidMessage(f"{name!r} is not a name; use a str of at least one character")
        result[name] = value if type(value) is str else checked(value, nesting=nesting - 1)
    return result


def _checked_int(value: int) -> int:
    """Return the number in the type in which it is read back."""
    if -(1 << 31) <= value < 1 << 31:
        return value
    if not -(1 << 63) <= value < 1 << 63:
        raise InvalidMessage(f"{value} is beyond a Java long (64 bits); store it as a str")
    return Long(value)


def identical(one: object, other: object) -> bool:
    """Return whether the values have the same Java types and bits; a NaN is identical to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Float) and isinstance(other, Float):
        return one.bits == other.bits
    if isinstance(one, float) and isinstance(other, float):
        return _DOUBLE.pack(one) == _DOUBLE.pack(other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(identical(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(identical, one, other))
    return one == other


def plain(value: object) -> object:
    """Convert a value for JSON: bytes become base64, NaN and infinities their names."""
    match value:
        case bytes():
            return b2a_base64(value, newline=False).decode("ascii")
        case float() if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Mapping():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value
