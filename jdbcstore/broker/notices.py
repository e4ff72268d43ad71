"""What a limit holds up, told once in a while: whoever looks for a message finds out why it does not come."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Hashable

from jdbcstore.broker.api import SubscriptionRequest
from jdbcstore.broker.memory import MemoryUsage
from jdbcstore.message.destination import Destination

log = logging.getLogger(__name__)

_INTERVAL = 30.0
"""Seconds between two lines about the same."""
_MINUTE = 60.0
_MOST = 1000
"""Things that are remembered to have been told."""


def name_of(request: SubscriptionRequest) -> str:
    """Who consumes, for a log."""
    if request.subscription_name is not None:
        return f"the subscription {request.subscription_name} of {request.client_id}"
    return f"a consumer of connection {request.connection_id}"


class BoundedLog:
    """Lines of one kind, so many in a minute: what clients do over and over must not fill a disk."""

    def __init__(self, what: str, most: int = 200) -> None:
        self._what = what
        self._most = most
        self._since = time.monotonic()
        self._count = 0

    def log(
        self, logger: logging.Logger, level: int, fields: dict[str, str], text: str, *values: object
    ) -> None:
        """As ``logger.log``, with fields of the line."""
        now = time.monotonic()
        if now - self._since >= _MINUTE:
            left_out = self._count - self._most
            self._since, self._count = now, 0
            if left_out > 0:
                log.warning("%d lines about %s were left out in the minute before", left_out, self._what)
        self._count += 1
        if self._count <= self._most:
            logger.log(level, text, *values, extra=fields)


class Notices:
    """For one thread."""

    def __init__(self) -> None:
        self._told: OrderedDict[Hashable, float] = OrderedDict()

    def is_news(self, *what: Hashable, interval: float = _INTERVAL) -> bool:
        """Whether it was not told of lately; from now on it was."""
        now = time.monotonic()
        before = self._told.get(what)
        if before is not None and now - before < interval:
            return False
        self._told[what] = now
        self._told.move_to_end(what)
        if len(self._told) > _MOST:
            self._told.popitem(last=False)
        return True

    def held_up(self, memory: MemoryUsage, request: SubscriptionRequest, where: Destination) -> None:
        """Messages wait for a consumer that would take them, until there is memory again."""
        subscriber, limit = name_of(request), memory.reached
        if self.is_news("held up", where, subscriber):
            log.warning(
                "%s: messages wait for %s, which has some that it has not acknowledged: %s is reached",
                *(where, subscriber, limit),
                extra={"limit": limit, "destination": str(where), "subscriber": subscriber},
            )
