"""The parameters of a statement that a user wrote: ``?`` in ActiveMQ's order, or ``:name``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jdbcstore.errors import ConfigurationError

_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*`   # literals and quoted names
    | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$                    # PostgreSQL's other literals
    | --[^\n]* | /\*.*?\*/
    | ::                                                   # PostgreSQL's cast
    | (?P<end>;)
    | (?P<mark>\?)
    | :(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)

_BLOCK = re.compile(r"(?i)(begin|declare)\b")
"""Oracle's blocks end in a semicolon of their own."""


@dataclass(frozen=True, slots=True)
class Template:
    """A statement cut at its parameters: ``pieces`` has one text more than there are ``names``."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]

    def render(self, mark: Callable[[int, str], str], escape: Callable[[str], str] = str) -> str:
        """The statement with ``mark(number from 1, name)`` for each parameter."""
        parts = [escape(self.pieces[0])]
        for number, (name, piece) in enumerate(zip(self.names, self.pieces[1:], strict=True), 1):
            parts += [mark(number, name), escape(piece)]
        return "".join(parts)


def parse(what: str, text: str, parameters: tuple[str, ...]) -> Template:
    """Find the parameters of a statement, outside literals, quoted names and comments.

    ``what`` names it in errors, ``parameters`` are those it is given, in the order of ``?``.

    :raises ConfigurationError: it asks for others, or for fewer
    """
    text = text.strip()
    if not _BLOCK.match(text):
        text = text.rstrip("; \t\r\n")
    pieces, names, place = [], [], 0
    for found in _TOKEN.finditer(text):
        if found["mark"] or found["name"]:
            pieces.append(text[place : found.start()])
            names.append(found["name"] or "?")
            place = found.end()
    pieces.append(text[place:])
    return Template(tuple(pieces), _resolve(what, names, parameters))


def _resolve(what: str, found: list[str], parameters: tuple[str, ...]) -> tuple[str, ...]:
    wanted = f"{what} takes {_list(parameters)}"
    marks = found.count("?")
    if marks and marks < len(found):
        raise ConfigurationError(f"{wanted}, and mixes ? with :{next(n for n in found if n != '?')}; use one")
    if marks or not found:
        if marks != len(parameters):
            given = f"has {marks} times ?" if marks else "has no parameter"
            raise ConfigurationError(f"{wanted}, and {given}")
        return parameters
    unknown = sorted(set(found) - set(parameters))
    missing = [name for name in parameters if name not in found]
    if unknown:
        raise ConfigurationError(f"{wanted}, and has :{', :'.join(unknown)}")
    if missing:
        raise ConfigurationError(f"{wanted}, and lacks :{', :'.join(missing)}")
    return tuple(found)


def _list(parameters: tuple[str, ...]) -> str:
    if not parameters:
        return "no parameters"
    count = f"{len(parameters)} parameters" if len(parameters) > 1 else "1 parameter"
    return f"{count} (? in the order {', '.join(parameters)}; or :{parameters[0]} by name)"


def split(text: str) -> list[str]:
    """The statements of a text, which are separated by semicolons."""
    statements, start = [], 0
    for found in _TOKEN.finditer(text):
        if found["end"]:
            statements.append(text[start : found.start()])
            start = found.end()
    statements.append(text[start:])
    return [stripped for statement in statements if (stripped := statement.strip())]
