"""Confirmations of operations: the current number of messages, and a name that the user types."""

from __future__ import annotations

from jdbcstore.broker.console.rendering import visible
from jdbcstore.broker.console.request_context import RequestContext
from jdbcstore.broker.management.performing import Affected
from jdbcstore.broker.operations import NotARequest

_MARGIN = 10


def chosen_by(ctx: RequestContext) -> str:
    """Return the selection of a form, for comparison with the selection that was counted."""
    return " · ".join(ctx.text(name).strip() for name in ("limit", "origin", "selector"))


def check(typed: str, ctx: RequestContext, now: Affected | None) -> None:
    """Check that the confirmed operation still affects the messages that were shown.

    :param typed: the field with the name to type; empty if the operation can be undone
    :raises NotConfirmed: the user must confirm again, with the reason
    """
    name = ctx.text(typed) if typed else ""
    if name and ctx.text("typed").strip() not in (name.strip(), visible(name).strip()):
        raise NotConfirmed(f"type {visible(name)} to confirm, because this cannot be undone")
    if now is None:
        return
    if ctx.text("counted_for") != chosen_by(ctx):
        raise NotConfirmed(f"this affects {now}; confirm it")
    said = ctx.number("counted", least=0, most=1 << 62) or 0
    if now.count > said + max(said // 10, _MARGIN):
        raise NotConfirmed(f"this now affects more: {now} instead of {said:,}; confirm it again")


class NotConfirmed(NotARequest):
    """An operation needs a confirmation, or another one."""
