"""Confirmations of operations: by the number of messages that they are for now, and a name that is typed."""

from __future__ import annotations

from jdbcstore.broker.console.rendering import visible
from jdbcstore.broker.console.visits import Visit
from jdbcstore.broker.management.performing import Affected
from jdbcstore.broker.operations import NotARequest

_MARGIN = 10


def chosen_by(visit: Visit) -> str:
    """Return what a form chooses messages by, to be compared with what they were counted for."""
    return " · ".join(visit.text(name).strip() for name in ("limit", "origin", "selector"))


def check(typed: str, visit: Visit, now: Affected | None) -> None:
    """Check that what is confirmed is still what was asked.

    :param typed: the field with the name that has to be typed; empty if what is done can be undone
    :raises NotConfirmed: it has to be asked again, and why
    """
    name = visit.text(typed) if typed else ""
    if name and visit.text("typed").strip() not in (name.strip(), visible(name).strip()):
        raise NotConfirmed(f"type {visible(name)} to confirm this, because it cannot be undone")
    if now is None:
        return
    if visit.text("counted_for") != chosen_by(visit):
        raise NotConfirmed(f"this is for {now}; confirm it")
    said = visit.number("counted", least=0, most=1 << 62) or 0
    if now.count > said + max(said // 10, _MARGIN):
        raise NotConfirmed(f"there are more than before: {now} instead of {said:,}; confirm it again")


class NotConfirmed(NotARequest):
    """An operation that has to be confirmed, or confirmed again."""
