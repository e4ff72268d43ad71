"""Java's numbers: integers of 64 bits that wrap around, floating point, and the literals of both."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from math import copysign, fmod, inf, isinf, isnan, nan

from jdbcstore.message.values import Byte, Float, Long, Short

Number = int | float

EXACT = frozenset({int, Long, Short, Byte})
APPROXIMATE = frozenset({float, Float})
NUMBERS = EXACT | APPROXIMATE

_LIMIT = 1 << 63
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def literal(text: str) -> Number:
    """Parse the number of a literal, as Java does; 2**63 is accepted, since a minus may precede it.

    :raises ValueError: it is not a Java number; the message says why
    """
    digits = text.rstrip("lL")
    if digits[:2] in ("0x", "0X"):
        return _integer(digits, 16)
    if digits.isdigit():
        octal = len(digits) > 1 and digits[0] == "0"
        if octal and not set(digits) <= set("01234567"):
            raise ValueError("a number that begins with 0 is octal, and this one is not")
        return _integer(digits, 8 if octal else 10)
    value = float(text.rstrip("fFdD"))
    single = text[-1] in "fF"
    if isinf(value) or (single and abs(value) > 3.4028235677973366e38):
        raise ValueError(f"the number is beyond a Java {'float' if single else 'double'}")
    return Float(value) if single else value


def _integer(digits: str, base: int) -> int:
    # Python raises an error of its own for thousands of digits.
    value = int(digits, base) if len(digits) < 100 else _LIMIT + 1
    if value > _LIMIT:
        raise ValueError("the number is beyond a Java long (64 bits)")
    return value


def parsed(text: str) -> Number | None:
    """Parse the number in a property's string; None if it is not a number."""
    if len(text) > 400:
        return None
    if _INTEGER.fullmatch(text):
        value = int(text)
        return value if -_LIMIT <= value < _LIMIT else float(text)
    return float(text) if _DECIMAL.fullmatch(text) else None


def promoted(one: Number, other: Number) -> tuple[Number, Number]:
    """Return both after Java's binary numeric promotion, which precedes a comparison."""
    if type(one) in EXACT and type(other) in EXACT:
        return one, other
    if type(one) is float or type(other) is float:
        return float(one), float(other)
    return Float(one), Float(other)


def wrapped(value: int) -> int:
    """Truncate a number to 64 bits."""
    return value if -_LIMIT <= value < _LIMIT else (value + _LIMIT) % (2 * _LIMIT) - _LIMIT


def negative(value: Number) -> Number:
    return wrapped(-int(value)) if type(value) in EXACT else -float(value)


def _operation(
    exact: Callable[[int, int], int], approximate: Callable[[float, float], float]
) -> Callable[[Number, Number], Number | None]:
    def calculate(one: Number, other: Number) -> Number | None:
        if type(one) in EXACT and type(other) in EXACT:
            try:
                return wrapped(exact(int(one), int(other)))
            except ZeroDivisionError:
                return None
        return approximate(float(one), float(other))

    return calculate


def _quotient(one: int, other: int) -> int:
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _remainder(one: int, other: int) -> int:
    remainder = abs(one) % abs(other)
    return -remainder if one < 0 else remainder


def _float_quotient(dividend: float, divisor: float) -> float:
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or isnan(dividend):
        return nan
    return inf * copysign(1.0, dividend) * copysign(1.0, divisor)


def _float_remainder(dividend: float, divisor: float) -> float:
    return nan if divisor == 0 or isinf(dividend) else fmod(dividend, divisor)


OPERATIONS: dict[str, Callable[[Number, Number], Number | None]] = {
    "+": _operation(operator.add, operator.add),
    "-": _operation(operator.sub, operator.sub),
    "*": _operation(operator.mul, operator.mul),
    "/": _operation(_quotient, _float_quotient),
    "%": _operation(_remainder, _float_remainder),
}
"""The result is None where Java throws an exception: an integer divided by 0."""
