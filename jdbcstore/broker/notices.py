"""Rate-limited log lines: messages delayed by a limit, and repeated actions of clients."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from jdbcstore.broker.api import SubscriptionRequest
from jdbcstore.message.destination import Destination

log = logging.getLogger(__name__)

_INTERVAL = 30.0
"""Seconds between two lines about the same subject."""
_MINUTE = 60.0
_MAX_SUBJECTS = 1000


def name_of(request: SubscriptionRequest) -> str:
    """Return the name of a consumer for the log."""
    if request.subscription_name is not None:
        return f"the subscription {request.subscription_name} of {request.client_id}"
    return f"a consumer of connection {request.connection_id}"


@dataclass
class BoundedLog:
    """Log lines of one kind, limited per minute, so that no client can fill the disk."""

    _what: str
    _most: int = 200
    _since: float = field(default_factory=time.monotonic)
    _count: int = 0

    def log(
        self, logger: logging.Logger, level: int, fields: dict[str, str], text: str, *values: object
    ) -> bool:
        """Log like ``logger.log``, with ``fields`` as the record's extra attributes.

        Return whether the line was logged.
        """
        now = time.monotonic()
        if now - self._since >= _MINUTE:
            left_out = self._count - self._most
            self._since, self._count = now, 0
            if left_out > 0:
                log.warning("%d lines about %s were omitted in the previous minute", left_out, self._what)
        self._count += 1
        is_logged = self._count <= self._most
        if is_logged:
            logger.log(level, text, *values, extra=fields)
        return is_logged


class Notices:
    """The last log times of subjects. Not thread-safe."""

    def __init__(self) -> None:
        self._logged: OrderedDict[Hashable, float] = OrderedDict()

    def is_news(self, *subject: Hashable, interval: float = _INTERVAL) -> bool:
        """Return whether to log a subject now: true at most once per interval."""
        now = time.monotonic()
        before = self._logged.get(subject)
        if before is not None and now - before < interval:
            return False
        self._logged[subject] = now
        self._logged.move_to_end(subject)
        if len(self._logged) > _MAX_SUBJECTS:
            self._logged.popitem(last=False)
        return True

    def held_up(self, limit: str, request: SubscriptionRequest, where: Destination) -> None:
        """Log that messages wait for a consumer until memory is released."""
        subscriber = name_of(request)
        if self.is_news("held up", where, subscriber):
            log.warning(
                "%s: messages wait for %s, which has unacknowledged messages: %s is reached",
                *(where, subscriber, limit),
                extra={"limit": limit, "destination": str(where), "subscriber": subscriber},
            )
