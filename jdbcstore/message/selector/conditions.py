"""The operators and operands of selectors, as functions that are built once and called for each message.

A condition returns true, false, or None for unknown. A comparison with NULL is unknown; one of values of
different kinds (a string and a number) is false for every operator (JMS 2.0, 3.8.1.2).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence

from jdbcstore.message.message import Message
from jdbcstore.message.selector.numbers import NUMBERS, OPERATIONS, Number, negative, parsed, promoted
from jdbcstore.message.values import Char, Value

Getter = Callable[[Message], Value]
Condition = Callable[[Message], bool | None]


def getter(name: str) -> Getter:
    """Return a getter of the header or property of this name; None if the message does not have it."""
    return _HEADERS.get(name) or (lambda message: message.properties.get(name))


def _string(value: object) -> str | None:
    return None if value is None else str(value)


def _user(message: Message) -> Value:
    return message.properties.get("JMSXUserID") if message.user_id is None else message.user_id


_HEADERS: dict[str, Getter] = {
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSPriority": lambda message: message.priority,
    "JMSMessageID": lambda message: _string(message.message_id),
    "JMSTimestamp": lambda message: message.timestamp_ms,
    "JMSCorrelationID": lambda message: message.correlation_id,
    "JMSType": lambda message: message.jms_type,
    "JMSDestination": lambda message: _string(message.original_destination or message.destination),
    "JMSReplyTo": lambda message: _string(message.reply_to),
    "JMSExpiration": lambda message: message.expiration_ms,
    "JMSRedelivered": lambda message: message.redelivery_counter > 0,
    "JMSXDeliveryCount": lambda message: message.redelivery_counter + 1,
    "JMSXGroupID": lambda message: message.group_id,
    "JMSXGroupSeq": lambda message: message.group_sequence,
    "JMSXGroupFirstForConsumer": lambda message: message.first_for_consumer,
    "JMSXUserID": _user,
    "JMSXProducerTXID": lambda message: _string(message.original_transaction_id or message.transaction_id),
    "JMSActiveMQBrokerInTime": lambda message: message.broker_in_time_ms,
    "JMSActiveMQBrokerOutTime": lambda message: message.broker_out_time_ms,
}


_TEXTS = frozenset({str, Char})
_ORDERS: dict[str, Callable[[Number, Number], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def junction(conditions: Sequence[Condition], *, decisive: bool) -> Condition:
    """Join conditions by OR, which a true one decides, or by AND, which a false one decides."""

    def holds(message: Message) -> bool | None:
        result: bool | None = not decisive
        for condition in conditions:
            holds = condition(message)
            if holds is decisive:
                return decisive
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
    """Return a condition that tests a property."""

    def holds(message: Message) -> bool | None:
        result = value(message)
        return None if result is None else result is True

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


def text_test(value: Getter, is_so: Callable[[str], bool], *, expected: bool) -> Condition:
    """Return a condition for LIKE or IN, or with ``expected`` false their opposites; false for a value that
    is not a string."""

    def holds(message: Message) -> bool | None:
        result = value(message)
        if result is None:
            return None
        return isinstance(result, str) and is_so(result) is expected

    return holds


_ANY, _ONE = "%", "_"


def like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Compile a LIKE pattern to a test: ``%`` is any number of characters, ``_`` is one.

    Its time grows with the product of the lengths. As in ActiveMQ, the escape character is an ordinary
    character before anything but ``%``, ``_`` and itself.
    """
    pieces = list(_pieces(pattern, escape))
    if len(pieces) == 1:
        whole = re.compile(pieces[0], re.DOTALL)
        return lambda text: whole.fullmatch(text) is not None
    # Each piece is matched once, as far left as possible: a single expression of all pieces could try every
    # way to split the string.
    first, *middle, last = (re.compile(piece, re.DOTALL) for piece in pieces)
    last = re.compile(f"(?:{last.pattern})\\Z", re.DOTALL)
    shortest_end = _width(pieces[-1])
    between = [piece for piece in middle if piece.pattern]

    def matches(text: str) -> bool:
        match = first.match(text)
        for piece in between:
            if match is None:
                return False
            match = piece.search(text, match.end())
        if match is None:
            return False
        start = len(text) - shortest_end
        return start >= match.end() and last.match(text, start) is not None

    return matches


def _pieces(pattern: str, escape: str | None) -> Iterator[str]:
    """Yield a regular expression of fixed width for each piece between two ``%``."""
    piece: list[str] = []
    characters = iter(range(len(pattern)))
    for at in characters:
        character, following = pattern[at], pattern[at + 1 : at + 2]
        if character == escape and following and following in (_ANY, _ONE, escape):
            next(characters)
            piece.append(re.escape(following))
        elif character == _ANY:
            yield "".join(piece)
            piece = []
        else:
            piece.append("." if character == _ONE else re.escape(character))
    yield "".join(piece)


def _width(piece: str) -> int:
    """Return the number of characters that a piece matches: a backslash and its character are one."""
    return len(re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL))


def arithmetic(symbol: str, one: Getter, other: Getter) -> Getter:
    """Return a getter of the result; NULL for a non-numeric operand, or an integer divided by 0."""
    operation = OPERATIONS[symbol]

    def value(message: Message) -> Value:
        left, right = one(message), other(message)
        if type(left) in NUMBERS and type(right) in NUMBERS:
            return operation(left, right)  # type: ignore[arg-type]
        return None

    return value


def signed(symbol: str, operand: Getter) -> Getter:
    """Return a getter of the operand or its negative; NULL if it is NULL or not a number."""
    is_minus = symbol == "-"

    def value(message: Message) -> Value:
        number = operand(message)
        if type(number) not in NUMBERS:
            return None
        return negative(number) if is_minus else number  # type: ignore[arg-type]

    return value


def as_number(value: Getter) -> Getter:
    """Convert a string to a number where it is one; other values are returned as they are."""

    def number(message: Message) -> Value:
        result = value(message)
        if not isinstance(result, str):
            return result
        read = parsed(result)
        return result if read is None else read

    return number


def alike(one: Getter, other: Getter) -> tuple[Getter, Getter]:
    """Convert a string to a number or boolean if the other operand is one; return both."""
    return _like_the(other, one), _like_the(one, other)


def _like_the(pattern: Getter, value: Getter) -> Getter:
    number = as_number(value)

    def converted(message: Message) -> Value:
        result = value(message)
        if not isinstance(result, str):
            return result
        kind = type(pattern(message))
        if kind is bool:
            return result.lower() == "true"
        return number(message) if kind in NUMBERS else result

    return converted
