"""Filtering and sorting of lists of views."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from jdbcstore.broker.operations import NotARequest

_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|!=|=|<|>)\s*(-?\d+(?:\.\d+)?)\s*(?:,|$)")
_COMPARED: dict[str, Callable[[Any, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
T = TypeVar("T")


def conditions(text: str, kind: type) -> list[tuple[str, Callable[[Any, float], bool], float]]:
    """Read conditions such as ``size > 100, consumers = 0`` on the numbers of a view.

    :raises NotARequest: it is not a condition, or does not name a number of the view
    """
    names = [field.name for field in fields(kind) if re.search(r"\b(int|float)\b", str(field.type))]
    conditions, at = [], 0
    while at < len(text.rstrip()):
        match = _CONDITION.match(text, at)
        if match is None or match[1] not in names:
            raise NotARequest(
                f"{text[at:].strip()!r} is not a condition; write, for example, {names[0]} > 100, "
                f"separate conditions by commas, and use these names: {', '.join(names)}"
            )
        conditions.append((match[1], _COMPARED[match[2]], float(match[3])))
        at = match.end()
    return conditions


def arranged(views: Sequence[T], *, where: str, sort: str, is_descending: bool) -> list[T]:
    """Return the views that meet all conditions, sorted by a field. Equal views keep their order; views
    without the field come last.

    :raises NotARequest: the conditions cannot be read
    """
    rows = views
    for name, compare, limit in conditions(where, type(views[0])) if views else ():
        measured = operator.attrgetter(name)
        rows = [view for view in rows if (found := measured(view)) is not None and compare(found, limit)]
    value = operator.attrgetter(sort)
    known = [view for view in rows if value(view) is not None]
    unknown = [] if len(known) == len(rows) else [view for view in rows if value(view) is None]
    return [*sorted(known, key=value, reverse=is_descending), *unknown]
