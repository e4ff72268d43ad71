"""LIKE: ``%`` is any number of characters, ``_`` is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_ANY, _ONE = "%", "_"


def like(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """What says whether a text is like the pattern, in time that grows with their lengths' product.

    As in ActiveMQ, the escape character stands for itself before anything but ``%``, ``_`` and itself.
    """
    pieces = list(_pieces(pattern, escape))
    if len(pieces) == 1:
        whole = re.compile(pieces[0], re.DOTALL)
        return lambda text: whole.fullmatch(text) is not None
    # Each piece is matched as far left as it goes, once: a single expression of them all could try
    # every way to cut the text.
    first, *middle, last = (re.compile(piece, re.DOTALL) for piece in pieces)
    last = re.compile(f"(?:{last.pattern})\\Z", re.DOTALL)
    shortest_end = _width(pieces[-1])
    between = [piece for piece in middle if piece.pattern]

    def matches(text: str) -> bool:
        found = first.match(text)
        for piece in between:
            if found is None:
                return False
            found = piece.search(text, found.end())
        if found is None:
            return False
        start = len(text) - shortest_end
        return start >= found.end() and last.match(text, start) is not None

    return matches


def _pieces(pattern: str, escape: str | None) -> Iterator[str]:
    """A regular expression of fixed width for each stretch between two ``%``."""
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
    """How many characters the piece matches: each is one, or two with the backslash before it."""
    return len(re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL))
