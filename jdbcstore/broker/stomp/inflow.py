"""How much clients may be sending at once: those with large frames take turns where that is too much."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from typing import Protocol

from jdbcstore.broker.notices import Notices

log = logging.getLogger(__name__)

LIMIT = 256 * 1024 * 1024
"""Bytes of frames that have not arrived whole, and of messages on their way into the broker."""
SMALL = 64 * 1024
"""Bytes that each client may have of these, whatever the others send."""
_PATIENCE = 2.0
"""Seconds that it may be a client's turn without anything coming from it."""


class Sender(Protocol):
    """A connection, as far as it sends."""

    @property
    def read_at(self) -> float:
        """When it was last read from."""

    def look_again(self) -> None:
        """It may be read from again."""


class Inflow:
    """Of all connections together; for the loop alone.

    Beyond the limit, who sends something large is not read from, but for the one whose turn it is: that
    frame can then be finished, and what it takes comes free. Nobody is sent away.
    """

    def __init__(self, notices: Notices, limit: int = LIMIT) -> None:
        self.limit = limit
        self.held = 0
        """Bytes of frames that have not arrived whole."""
        self.under_way = 0
        """Bytes of messages that are not stored, and have no place in a destination, yet."""
        self._notices = notices
        self._large: dict[Sender, None] = {}
        """Those that have begun something large, the next first."""
        self._waiting: dict[Sender, None] = {}
        self._loop: AbstractEventLoop | None = None

    def is_over(self) -> bool:
        return self.held + self.under_way > self.limit

    def hold(self, sender: Sender, before: int, now: int) -> None:
        """A sender has so much that has not arrived whole."""
        self.held += now - before
        if now > SMALL:
            self._large.setdefault(sender)
        elif before > SMALL:
            self._large.pop(sender, None)
            self._waiting.pop(sender, None)
        if now < before:
            self._tell()

    def begin(self, size: int) -> None:
        """So much is on its way."""
        self.under_way += size

    def end(self, size: int) -> None:
        """It has arrived, or was refused."""
        self.under_way -= size
        self._tell()

    def may_read(self, sender: Sender, held: int, loop: AbstractEventLoop) -> bool:
        """Whether to read from somebody who has so much; if not, it is told when to look again."""
        if held <= SMALL or not self.is_over():
            return True
        if sender is next(iter(self._large), None) and self.under_way < self.limit:
            return True
        if self._notices.is_news("inflow"):
            log.warning(
                "clients send more than %d bytes at once: those with large messages take turns",
                self.limit,
                extra={"limit": "inflow", "clients": len(self._large)},
            )
        self._waiting[sender] = None
        if self._loop is None:
            self._loop = loop
            loop.call_later(_PATIENCE, self._look)
        return False

    def _look(self) -> None:
        """Whether it is the turn of somebody who does nothing with it."""
        loop, self._loop = self._loop, None
        first = next(iter(self._large), None)
        if loop is None or first is None or not self._waiting:
            return
        if loop.time() - first.read_at >= _PATIENCE:
            del self._large[first]
            self._large[first] = None
        self._tell()
        if self._waiting and self._loop is None:
            self._loop = loop
            loop.call_later(_PATIENCE, self._look)

    def _tell(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for sender in waiting:
                sender.look_again()
