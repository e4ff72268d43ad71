"""The configuration of a broker's process, its users, and the last lines of its log."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

from jdbcstore.broker.management.audit import AUDIT_LOG
from jdbcstore.broker.security import KnownUser, Security
from jdbcstore.config import Configuration, shown_options

_LINES = 1000
"""The number of lines that are kept."""
_LONGEST = 4000
"""The most characters of a line, including a traceback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of the log."""

    time_ms: int
    level: str
    logger: str
    text: str


class LogTail(logging.Handler):
    """A context manager that keeps the last lines of the log and of the audit log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[LogLine] = deque(maxlen=_LINES)
        self._format = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self._format.formatException(record.exc_info)}"
        line = LogLine(
            time_ms=int(1000 * record.created),
            level=record.levelname.lower(),
            logger=record.name,
            text=text[:_LONGEST],
        )
        self._lines.append(line)

    def lines(self) -> list[LogLine]:
        """Return the lines, the newest first."""
        return [*reversed(self._lines)]

    def start(self) -> None:
        """Begin to listen to the loggers."""
        for logger in map(logging.getLogger, ("", AUDIT_LOG)):
            logger.addHandler(self)

    def stop(self) -> None:
        """End that."""
        for logger in map(logging.getLogger, ("", AUDIT_LOG)):
            logger.removeHandler(self)


class BrokerInside:
    """The configuration, the users and the log of one process."""

    def __init__(self, configuration: Configuration, security: Security, tail: LogTail) -> None:
        self._configuration = configuration
        self._security = security
        self._tail = tail

    def configuration(self) -> dict[str, Any]:
        """Return each option with value and source, without secrets, and notes on unsupported settings."""
        configuration = self._configuration
        options = [
            {
                "option": path,
                "value": value,
                "source": str(configuration.sources.get(path, "default")),
            }
            for path, value in shown_options(configuration)
        ]
        return {"options": options, "notes": [str(note) for note in configuration.notes]}

    async def users(self) -> list[KnownUser]:
        """Return the users with their roles and permissions, by name; none without a users file."""
        return await self._security.known()

    def log(self, *, search: str = "", limit: int = 100) -> list[LogLine]:
        """Return the last lines of the log and the audit log, newest first.

        :param search: a part of a line, ignoring case
        """
        lines = [
            line for line in self._tail.lines() if search.lower() in f"{line.logger} {line.text}".lower()
        ]
        return lines[:limit]
