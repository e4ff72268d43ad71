"""Tasks that behave and misbehave."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from django.db import OperationalError, transaction
from shop.models import Order

from jdbcstore.plugins.django.models import TaskRecord
from jdbcstore.testing.polling import wait_until

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

ran: list[str] = []
"""What ran in this process."""


@task
def note(name: str, **_: Any) -> str:
    ran.append(name)
    return name


@task
async def note_in_loop(name: str) -> str:
    ran.append(name)
    return name


@task(takes_context=True)
def attempt(context: Any, *, add: int) -> list[Any]:
    return [context.task_result.id, context.attempt + add, context.task_result.status]


@task
def fails(kind: str) -> Any:
    match kind:
        case "exit":
            raise SystemExit("it has had enough")
        case "interrupt":
            raise KeyboardInterrupt("nobody pressed a key")
        case "database":
            raise OperationalError("of the task's own")
        case "nested":
            raise ValueError(ValueError("\0 and \ud800"))
        case "value":
            return object()
    raise LookupError(kind)


@task
def leaves_a_transaction_open() -> None:
    transaction.set_autocommit(False)
    Order.objects.create(what="nothing")


@task(takes_context=True)
def is_begun_elsewhere(context: Any) -> None:
    TaskRecord.objects.filter(pk=context.task_result.id).update(attempts=9)


@task
def returns_a_nul() -> str:
    return "\0"


@task(takes_context=True)
def hangs(context: Any, begun: str) -> int:
    """Hang in the first attempt, until the worker is asked to stop."""
    attempt_: int = context.attempt
    if attempt_ == 1:
        Path(begun).touch()
        wait_until(lambda: signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, 180.0, "a signal")
    return attempt_
