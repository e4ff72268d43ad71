"""JMS selectors: conditions on the headers and properties of a message, as SQL-92 writes them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from jdbcstore.errors import InvalidSelector
from jdbcstore.message.message import Message
from jdbcstore.message.selector.conditions import Condition

__all__ = ["MAX_LENGTH", "Selector"]

MAX_LENGTH = 10_000
"""Characters of the longest selector; longer ones would keep a broker busy with understanding them."""

_CONVERTING = "convert_string_expressions:"
_CACHED_LENGTH = 1_000


class Selector:
    """A condition that a message fulfils or not.

    The syntax is that of JMS 2.0, which is that of ``WHERE`` in SQL-92: ``colour = 'red' AND
    (weight BETWEEN 2 AND 3.5 OR JMSPriority > 6)``. A blank text is fulfilled by every message. With
    ActiveMQ's prefix ``convert_string_expressions:`` a property that is a text counts as a number or
    boolean where it is compared with one.

    Immutable, equal to another with the same text, and for any number of threads.

    :raises InvalidSelector: not a selector; the reason is meant for whoever wrote it
    """

    __slots__ = ("_condition", "names", "text")

    text: str
    names: frozenset[str]
    """The identifiers of headers and properties that it asks for."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            reason = f"it has {len(text)} characters, and {MAX_LENGTH} are the limit"
            raise InvalidSelector(text, reason)
        compiled = _compile_once(text) if len(text) <= _CACHED_LENGTH else _compile(text)
        self.text = text
        self._condition, self.names = compiled

    def matches(self, message: Message) -> bool:
        """Whether the message fulfils it. Neither false nor unknown does.

        Properties are decoded only if one is asked for.

        :raises CorruptMessage: the properties are damaged
        """
        return self._condition(message) is True

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"


class _Compiled(NamedTuple):
    condition: Condition
    names: frozenset[str]


def _compile(text: str) -> _Compiled:
    # The parser takes a while to load, and who imports this need not have a selector.
    from jdbcstore.message.selector.compiler import Compiler
    from jdbcstore.message.selector.grammar import parse

    converting = text.startswith(_CONVERTING)
    begin = len(_CONVERTING) if converting else 0
    if not text[begin:].strip():
        return _Compiled(lambda _: True, frozenset())
    compiler = Compiler(text, converting=converting)
    try:
        return _Compiled(compiler.condition(parse(text, begin)), frozenset(compiler.names))
    except InvalidSelector as error:
        # Whoever wrote it may know nothing of the prefix, which a connector puts before it.
        position = None if error.position is None else error.position - begin
        raise InvalidSelector(text[begin:], error.reason, position=position) from error


_compile_once = lru_cache(maxsize=500)(_compile)
