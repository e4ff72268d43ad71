"""The compiler of selectors: from the syntax tree to one function that is called for each message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from lark import Token, Tree

from jdbcstore.errors import InvalidSelector
from jdbcstore.message.selector.conditions import (
    Condition,
    Getter,
    alike,
    arithmetic,
    as_number,
    comparison,
    getter,
    is_null,
    is_true,
    junction,
    like,
    negation,
    signed,
    text_test,
)
from jdbcstore.message.selector.numbers import literal

MAX_NESTING = 150
"""Each level is a nested call in Python, whose depth is limited."""


class OperandKind(StrEnum):
    """The kind of a part of a selector; the value is its name in error texts."""

    PROPERTY = "a property"
    NUMBER = "a number"
    TEXT = "a string"
    BOOLEAN = "true or false"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a selector: its kind, and the function that returns its value."""

    kind: OperandKind
    value: Getter
    position: int
    depth: int = 0


class Compiler:
    """The compilation of one selector. ``converting``: strings of properties may be numbers or booleans."""

    def __init__(self, text: str, *, converting: bool = False) -> None:
        self._text = text
        self._converting = converting
        self.names: set[str] = set()
        """The identifiers found so far."""

    def condition(self, tree: Tree[Token]) -> Condition:
        """Compile the whole selector, without recursion however deep the tree is.

        :raises InvalidSelector: operands of the wrong kind for their operator, or too much nesting
        """
        parts: dict[int, Part] = {}
        for subtree in tree.iter_subtrees():
            operands = [parts[id(child)] if isinstance(child, Tree) else child for child in subtree.children]
            part: Part = getattr(self, f"_{subtree.data}")(*operands)
            if part.depth > MAX_NESTING:
                raise self._error(f"it is nested more than {MAX_NESTING} deep", part.position)
            parts[id(subtree)] = part
        return self._as_condition(parts[id(tree)])

    def _error(self, reason: str, position: int) -> InvalidSelector:
        return InvalidSelector(self._text, reason, position=position)

    def _part(self, kind: OperandKind, value: Callable[..., Any], *operands: Part) -> Part:
        return Part(kind, value, operands[0].position, 1 + max(operand.depth for operand in operands))

    def _as_condition(self, part: Part) -> Condition:
        if part.kind is OperandKind.PROPERTY:
            return is_true(part.value)
        if part.kind is not OperandKind.BOOLEAN:
            raise self._error(f"{part.kind} alone is not a condition; compare it", part.position)
        return cast(Condition, part.value)

    # literals and identifiers

    def _number(self, token: Token) -> Part:
        position = token.start_pos or 0
        try:
            number = literal(token)
        except ValueError as error:
            raise self._error(str(error), position) from None
        if number == 1 << 63 and isinstance(number, int) and not self._text[:position].rstrip().endswith("-"):
            raise self._error("the number is beyond a Java long (64 bits)", position)
        return Part(OperandKind.NUMBER, lambda _: number, position)

    def _quoted(self, token: Token) -> Part:
        text = _unquoted(token)
        return Part(OperandKind.TEXT, lambda _: text, token.start_pos or 0)

    def _boolean(self, token: Token) -> Part:
        truth = token.type == "TRUE"
        return Part(OperandKind.BOOLEAN, lambda _: truth, token.start_pos or 0)

    def _identifier(self, token: Token) -> Part:
        name = str(token)
        self.names.add(name)
        return Part(OperandKind.PROPERTY, getter(name), token.start_pos or 0)

    # conditions

    def _disjunction(self, *operands: Part) -> Part:
        return self._junction(operands, decisive=True)

    def _conjunction(self, *operands: Part) -> Part:
        return self._junction(operands, decisive=False)

    def _junction(self, operands: Sequence[Part], *, decisive: bool) -> Part:
        value = junction([self._as_condition(part) for part in operands], decisive=decisive)
        return self._part(OperandKind.BOOLEAN, value, *operands)

    def _negation(self, _not: Token, operand: Part) -> Part:
        return self._part(OperandKind.BOOLEAN, negation(self._as_condition(operand)), operand)

    def _comparison(self, one: Part, symbol: Token, other: Part) -> Part:
        if symbol not in ("=", "<>"):
            self._check_numbers(symbol, one, other)
        value = comparison(symbol, *self._pair(symbol, one, other))
        return self._part(OperandKind.BOOLEAN, value, one, other)

    def _pair(self, symbol: str, one: Part, other: Part) -> tuple[Getter, Getter]:
        if not self._converting:
            return one.value, other.value
        if symbol in ("=", "<>"):
            return alike(one.value, other.value)
        return as_number(one.value), as_number(other.value)

    def _between(self, value: Part, not_: Token | None, low: Part, high: Part) -> Part:
        from_low, to_high = (_GE, _LE) if not_ is None else (_LT, _GT)
        bounds = self._comparison(value, from_low, low), self._comparison(value, to_high, high)
        return self._junction(bounds, decisive=not_ is not None)

    def _is_null(self, operand: Part, not_: Token | None) -> Part:
        return self._part(OperandKind.BOOLEAN, is_null(operand.value, expected=not_ is None), operand)

    def _like(self, value: Part, not_: Token | None, pattern: Token, escape: Token | None) -> Part:
        if value.kind not in (OperandKind.PROPERTY, OperandKind.TEXT):
            raise self._error(f"LIKE is for strings, and this is {value.kind}", value.position)
        character = None if escape is None else _unquoted(escape)
        if escape is not None and len(character or "") != 1:
            raise self._error("ESCAPE takes a string of one character", escape.start_pos or 0)
        is_like = like(_unquoted(pattern), character)
        return self._part(OperandKind.BOOLEAN, text_test(value.value, is_like, expected=not_ is None), value)

    def _membership(self, value: Part, not_: Token | None, *texts: Token) -> Part:
        if value.kind is not OperandKind.PROPERTY:
            raise self._error(f"IN is for properties, and this is {value.kind}", value.position)
        is_in = frozenset(map(_unquoted, texts)).__contains__
        return self._part(OperandKind.BOOLEAN, text_test(value.value, is_in, expected=not_ is None), value)

    # numbers

    def _arithmetic(self, one: Part, symbol: Token, other: Part) -> Part:
        self._check_numbers(symbol, one, other)
        value = arithmetic(symbol, self._operand(one), self._operand(other))
        return self._part(OperandKind.NUMBER, value, one, other)

    def _sign(self, symbol: Token, operand: Part) -> Part:
        self._check_numbers(symbol, operand)
        return self._part(OperandKind.NUMBER, signed(symbol, self._operand(operand)), operand)

    def _operand(self, part: Part) -> Getter:
        return as_number(part.value) if self._converting else part.value

    def _check_numbers(self, symbol: str, *operands: Part) -> None:
        for part in operands:
            if part.kind not in (OperandKind.PROPERTY, OperandKind.NUMBER):
                raise self._error(f"{symbol} is for numbers, and this is {part.kind}", part.position)


def _unquoted(token: Token) -> str:
    return token[1:-1].replace("''", "'")


_GE, _LE, _LT, _GT = (Token("COMPARISON", symbol) for symbol in (">=", "<=", "<", ">"))
