"""The operators of selectors, as functions that are made once and asked for each message.

A condition gives true, false, or None for unknown. A comparison with NULL is unknown; one of values that are
not alike (a text and a number) is false, whatever the operator, as JMS 2.0 has it in 3.8.1.2.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from jdbcstore.message.message import Message
from jdbcstore.message.selector.identifiers import Getter
from jdbcstore.message.selector.numbers import NUMBERS, OPERATIONS, Number, negative, promoted, said
from jdbcstore.message.values import Char, Value

Condition = Callable[[Message], bool | None]

_TEXTS = frozenset({str, Char})
_ORDERS: dict[str, Callable[[Number, Number], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def any_of(conditions: Sequence[Condition]) -> Condition:
    def holds(message: Message) -> bool | None:
        result: bool | None = False
        for condition in conditions:
            holds = condition(message)
            if holds:
                return True
            if holds is None:
                result = None
        return result

    return holds


def all_of(conditions: Sequence[Condition]) -> Condition:
    def holds(message: Message) -> bool | None:
        result: bool | None = True
        for condition in conditions:
            holds = condition(message)
            if holds is False:
                return False
            if holds is None:
                result = None
        return result

    return holds


def negation(condition: Condition) -> Condition:
    def holds(message: Message) -> bool | None:
        holds = condition(message)
        return None if holds is None else not holds

    return holds


def is_true(value: Getter) -> Condition:
    """A property alone as a condition."""

    def holds(message: Message) -> bool | None:
        found = value(message)
        return None if found is None else found is True

    return holds


def is_null(value: Getter, *, expected: bool) -> Condition:
    return lambda message: (value(message) is None) is expected


def comparison(symbol: str, one: Getter, other: Getter) -> Condition:
    order = _ORDERS.get(symbol)
    return _equality(one, other, equal=symbol == "=") if order is None else _ordering(order, one, other)


def _equality(one: Getter, other: Getter, *, equal: bool) -> Condition:
    def holds(message: Message) -> bool | None:
        left, right = one(message), other(message)
        if left is None or right is None:
            return None
        kind, other_kind = type(left), type(right)
        if kind in NUMBERS and other_kind in NUMBERS:
            if kind is not other_kind:
                left, right = promoted(left, right)  # type: ignore[arg-type]
        elif not ((kind in _TEXTS and other_kind in _TEXTS) or (kind is bool and other_kind is bool)):
            return False
        return (left == right) is equal

    return holds


def _ordering(order: Callable[[Number, Number], bool], one: Getter, other: Getter) -> Condition:
    def holds(message: Message) -> bool | None:
        left, right = one(message), other(message)
        if left is None or right is None:
            return None
        kind, other_kind = type(left), type(right)
        if kind not in NUMBERS or other_kind not in NUMBERS:
            return False
        if kind is not other_kind:
            left, right = promoted(left, right)  # type: ignore[arg-type]
        return order(left, right)  # type: ignore[arg-type]

    return holds


def membership(value: Getter, texts: Sequence[str], *, expected: bool) -> Condition:
    among = frozenset(texts)
    return _of_text(value, among.__contains__, expected=expected)


def likeness(value: Getter, is_like: Callable[[str], bool], *, expected: bool) -> Condition:
    return _of_text(value, is_like, expected=expected)


def _of_text(value: Getter, is_so: Callable[[str], bool], *, expected: bool) -> Condition:
    def holds(message: Message) -> bool | None:
        found = value(message)
        if found is None:
            return None
        return isinstance(found, str) and is_so(found) is expected

    return holds


def arithmetic(symbol: str, one: Getter, other: Getter) -> Getter:
    """The result; NULL where an operand is NULL or no number, or a whole number is divided by 0."""
    operation = OPERATIONS[symbol]

    def value(message: Message) -> Value:
        left, right = one(message), other(message)
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return operation(left, right)  # type: ignore[arg-type]
        return None

    return value


def minus(operand: Getter) -> Getter:
    def value(message: Message) -> Value:
        found = operand(message)
        return negative(found) if type(found) in NUMBERS else None  # type: ignore[arg-type]

    return value


def plus(operand: Getter) -> Getter:
    def value(message: Message) -> Value:
        found = operand(message)
        return found if type(found) in NUMBERS else None

    return value


def as_number(value: Getter) -> Getter:
    """The number that a text is; what is no text stays what it is."""

    def number(message: Message) -> Value:
        found = value(message)
        if not isinstance(found, str):
            return found
        read = said(found)
        return found if read is None else read

    return number


def alike(one: Getter, other: Getter) -> tuple[Getter, Getter]:
    """The two, of which a text becomes what the other is, a number or boolean."""
    return _like_the(other, one), _like_the(one, other)


def _like_the(pattern: Getter, value: Getter) -> Getter:
    number = as_number(value)

    def converted(message: Message) -> Value:
        found = value(message)
        if not isinstance(found, str):
            return found
        kind = type(pattern(message))
        if kind is bool:
            return found.lower() == "true"
        return number(message) if kind in NUMBERS else found

    return converted
