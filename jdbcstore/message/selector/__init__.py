"""JMS selectors: conditions on the headers and properties of a message, in the syntax of SQL-92."""

from __future__ import annotations

from functools import lru_cache

from jdbcstore.errors import InvalidSelector
from jdbcstore.message.message import Message
from jdbcstore.message.selector.conditions import Condition

__all__ = ["MAX_LENGTH", "Selector"]

MAX_LENGTH = 10_000
"""The most characters of a selector; parsing a longer one would keep a broker busy."""

_CONVERTING = "convert_string_expressions:"
_CACHED_LENGTH = 1_000


class Selector:
    """A condition on messages.

    The syntax is that of JMS 2.0, a subset of ``WHERE`` in SQL-92: ``colour = 'red' AND (weight BETWEEN 2
    AND 3.5 OR JMSPriority > 6)``. A blank selector matches every message. With ActiveMQ's prefix
    ``convert_string_expressions:`` a string property is converted where it is compared with a number or
    boolean.

    Immutable, equal to another with the same text, and usable by any number of threads.

    :raises InvalidSelector: it is not valid; the error says where and why
    """

    __slots__ = ("_condition", "names", "text")

    text: str
    """The selector as it was given."""
    names: frozenset[str]
    """The names of the headers and properties in it."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            reason = f"it has {len(text)} characters, and the limit is {MAX_LENGTH}; shorten it"
            raise InvalidSelector(text, reason)
        compiled = _compile_once(text) if len(text) <= _CACHED_LENGTH else _compile(text)
        self._condition, self.names = compiled
        self.text = text

    def matches(self, message: Message) -> bool:
        """Return whether the condition is true for the message, rather than false or unknown.

        Properties are decoded only if the selector has one.

        :raises CorruptMessage: the properties are damaged
        """
        return self._condition(message) is True

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


def _compile(text: str) -> tuple[Condition, frozenset[str]]:
    """Compile a selector to its condition, and return the names in it."""
    # Loading the parser takes time, and most programs have no selector.
    from jdbcstore.message.selector.compiler import Compiler
    from jdbcstore.message.selector.grammar import parse

    converting = text.startswith(_CONVERTING)
    begin = len(_CONVERTING) if converting else 0
    if not text[begin:].strip():
        return lambda _: True, frozenset()
    compiler = Compiler(text, converting=converting)
    try:
        return compiler.condition(parse(text, begin)), frozenset(compiler.names)
    except InvalidSelector as error:
        # A connector may have added the prefix, so positions are those of the client's text.
        position = None if error.position is None else error.position - begin
        raise InvalidSelector(text[begin:], error.reason, position=position) from error


_compile_once = lru_cache(maxsize=500)(_compile)
