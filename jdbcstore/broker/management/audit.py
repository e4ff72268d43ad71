"""The audit log: one line of JSON for each operation of an administrator, successful or not."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from jdbcstore.broker.engine import Engine
from jdbcstore.broker.management.master import CurrentMaster
from jdbcstore.broker.management.messages import MessageChoice
from jdbcstore.message.destination import Destination
from jdbcstore.util.clock import Clock

AUDIT_LOG = "jdbcstore.audit"
"""The name of the logger: its messages are the lines, at INFO."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The origin of an operation."""

    user: str
    """The login; empty without one."""
    peer: str = ""
    """The client's address; empty in this process."""


@contextmanager
def audited(clock: Clock, actor: Actor, name: str, **details: Any) -> Iterator[dict[str, Any]]:
    """Log an operation when it ends; entries added to the dictionary are its result."""
    line: dict[str, Any] = {
        "time_ms": clock.now_ms(),
        "operation": name,
        "user": actor.user,
        "peer": actor.peer,
        **{key: value for key, value in details.items() if value is not None},
    }
    try:
        yield line
    except BaseException as error:
        line["error"] = type(error).__name__
        raise
    finally:
        logging.getLogger(AUDIT_LOG).info("%s", json.dumps(line, default=str))


def log_refused(actor: Actor, what: str, why: str) -> None:
    """Log a request that was rejected before it became an operation, such as a wrong login."""
    line = {
        "time_ms": time.time_ns() // 1_000_000,
        "operation": "refused",
        "user": actor.user,
        "peer": actor.peer,
        "request": what,
        "error": why,
    }
    logging.getLogger(AUDIT_LOG).info("%s", json.dumps(line))


class Audit:
    """The audit log around each operation. It never contains bodies, properties or passwords."""

    def __init__(self, clock: Clock, master: CurrentMaster) -> None:
        self._clock = clock
        self._master = master

    @contextmanager
    def operation(self, actor: Actor, name: str, **details: Any) -> Iterator[tuple[Engine, dict[str, Any]]]:
        """Log an operation on the engine, like :func:`audited`.

        :raises NotMaster: the broker is not serving, which is logged too
        """
        with audited(self._clock, actor, name, **details) as line:
            yield self._master.engine(), line

    def on_messages(
        self, actor: Actor, name: str, queue: Destination, choice: MessageChoice, **details: Any
    ) -> AbstractContextManager[tuple[Engine, dict[str, Any]]]:
        """Log an operation on some messages of a queue, like :meth:`operation`."""
        return self.operation(
            actor,
            name,
            destination=str(queue),
            ids=choice.ids,
            selector=choice.selector,
            origin=None if choice.origin is None else str(choice.origin),
            limit=choice.limit,
            group=choice.group,
            **details,
        )
