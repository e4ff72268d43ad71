"""Whether two stores have the same rows, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from jdbcstore.abc import Progress
from jdbcstore.config import Configuration
from jdbcstore.tools.transfer.end import AheadRow, End, MarkRow, MessageRow

T = TypeVar("T", MessageRow, MarkRow, AheadRow)

_WHAT = {MessageRow: "message", MarkRow: "subscription", AheadRow: "acknowledgement"}


class Difference(NamedTuple):
    """A row that one side has not, or has otherwise."""

    difference: str
    """``missing``: the right side has it not. ``extra``: only the right side has it. ``different``."""
    what: str
    """``message``, ``subscription`` (one of its marks) or ``acknowledgement`` (ahead of the mark)."""
    destination: str
    id: int | None = None
    client_id: str | None = None
    subscription_name: str | None = None
    priority: int | None = None
    columns: tuple[str, ...] = ()
    """Those that differ."""


@dataclass(slots=True)
class Side:
    """What one store has."""

    place: str
    messages: int = 0
    message_bytes: int = 0
    marks: int = 0
    """Rows of subscriptions: one each, or ten where the topic is prioritised."""
    acknowledged_ahead: int = 0
    checksum: str = ""
    """SHA-256 of all these rows, in an order that no database decides on: the same for the same rows."""
    _hash: Any = field(default_factory=hashlib.sha256, repr=False)

    def count(self, row: MessageRow | MarkRow | AheadRow) -> None:
        """Take one more row in."""
        if isinstance(row, MessageRow):
            self.messages += 1
            self.message_bytes += len(row.msg)
        elif isinstance(row, MarkRow):
            self.marks += 1
        else:
            self.acknowledged_ahead += 1
        for value in row:
            self._hash.update(_encoded(value))

    def seal(self) -> None:
        self.checksum = self._hash.hexdigest()


@dataclass(slots=True)
class Comparison:
    """What became of comparing; ``missing``, ``extra`` and ``different`` count rows."""

    left: Side
    right: Side
    missing: int = 0
    extra: int = 0
    different: int = 0

    @property
    def same(self) -> bool:
        return not (self.missing or self.extra or self.different)


def compare(
    left: Configuration,
    right: Configuration,
    progress: Progress | None = None,
    on_difference: Callable[[Difference], None] | None = None,
) -> Comparison:
    """Compare all that two stores hold: messages, subscriptions' marks, acknowledgements ahead of them.

    The lock, the epoch and the next sequence are each store's own. Both are only read, in pages, so that
    what changes meanwhile may show as a difference.

    :raises SchemaError: one of them has no tables
    """
    with End(left) as one, End(right) as other:
        return compare_ends(one, other, progress, on_difference)


def compare_ends(
    left: End,
    right: End,
    progress: Progress | None = None,
    on_difference: Callable[[Difference], None] | None = None,
) -> Comparison:
    result = Comparison(Side(left.place), Side(right.place))
    for pair in _pairs(left, right):
        for side, row in zip((result.left, result.right), pair, strict=True):
            if row is not None:
                side.count(row)
        if progress is not None and isinstance(pair[0] or pair[1], MessageRow):
            progress(1)
        if pair[0] != pair[1]:
            found = _difference(*pair)
            setattr(result, found.difference, getattr(result, found.difference) + 1)
            if on_difference is not None:
                on_difference(found)
    result.left.seal()
    result.right.seal()
    return result


def _pairs(left: End, right: End) -> Iterator[tuple[Any, Any]]:
    """Every row of either side, beside the one of the same key on the other."""
    yield from _merged(_flat(left.messages()), _flat(right.messages()), lambda row: row.id)
    for container in sorted(left.containers() | right.containers()):
        yield from _merged(left.marks(container), right.marks(container), lambda mark: mark.key)
    for subscription in sorted(left.subscriptions_ahead() | right.subscriptions_ahead()):
        yield from _merged(left.ahead(subscription), right.ahead(subscription), lambda row: row.id)


_flat = chain.from_iterable


def _merged(
    left: Iterable[T], right: Iterable[T], key: Callable[[T], Any]
) -> Iterator[tuple[T | None, T | None]]:
    """Rows of two sides, both in the order of their keys."""
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None or other is not None:
        if other is None or (one is not None and key(one) < key(other)):
            yield one, None
            one = next(lefts, None)
        elif one is None or key(other) < key(one):
            yield None, other
            other = next(rights, None)
        else:
            yield one, other
            one, other = next(lefts, None), next(rights, None)


def _difference(left: Any, right: Any) -> Difference:
    row = left or right
    kind = "missing" if right is None else "extra" if left is None else "different"
    columns: tuple[str, ...] = ()
    if kind == "different":
        columns = tuple(name for name in row._fields if getattr(left, name) != getattr(right, name))
    return Difference(
        kind,
        _WHAT[type(row)],
        row.container,
        getattr(row, "id", None),
        getattr(row, "client_id", None),
        getattr(row, "sub_name", None),
        row.priority if isinstance(row, MarkRow) else None,
        columns,
    )


def _encoded(value: int | str | bytes | None) -> bytes:
    """Such that no two rows have the same."""
    if value is None:
        return b"N"
    if isinstance(value, int):
        return b"I%d;" % value
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return b"%c%d:%b" % (b"S" if isinstance(value, str) else b"B", len(raw), raw)
