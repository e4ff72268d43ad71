"""The audit log: one line of JSON for each operation of an administrator, successful or not."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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


class Audit:
    """Writes the audit log. Neither bodies, properties nor passwords are ever in it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._log = logging.getLogger(AUDIT_LOG)

    @contextmanager
    def operation(self, actor: Actor, name: str, **details: Any) -> Iterator[dict[str, Any]]:
        """Log an operation when it ends; what is added to the dictionary is its result."""
        line: dict[str, Any] = {
            "time_ms": self._clock.now_ms(),
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
            self._log.info("%s", json.dumps(line, default=str))
