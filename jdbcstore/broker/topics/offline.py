"""The deletion of durable subscriptions that have had no consumer for a long time."""

from __future__ import annotations

import asyncio
import logging
from asyncio import Task, TimerHandle

from jdbcstore.broker.loop import BrokerLoop
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.topics.registry import DurableRegistry
from jdbcstore.errors import StoreError, SubscriptionInUse, SubscriptionNotFound

log = logging.getLogger(__name__)


class OfflineDurables:
    """Deletes durable subscriptions without a consumer, according to ``offlineDurableSubscriberTimeout``."""

    def __init__(self, loop: BrokerLoop, durables: DurableRegistry, options: EngineOptions) -> None:
        self._loop, self._durables = loop, durables
        self._timeout, self._period = options.offline_durable_timeout, options.offline_durable_period
        self._timer: TimerHandle | None = None
        self._deleting: Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Start searching, once per period."""
        if self._timeout and self._period:
            self._timer = self._loop.call_later(self._period, self._begin)

    async def stop(self) -> None:
        """Stop searching, and wait for a running deletion."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._deleting is not None:
            await asyncio.gather(self._deleting, return_exceptions=True)

    def _begin(self) -> None:
        def done(deleting: Task[None]) -> None:
            deleting.result()
            if not self._is_stopping:
                self.start()

        self._deleting = self._loop.create_task(self.delete())
        self._deleting.add_done_callback(self._loop.guarded(done))

    async def delete(self) -> None:
        """Delete subscriptions that have been without a consumer for too long."""
        latest = self._loop.clock.monotonic() - self._timeout
        for durable in [*self._durables]:
            if self._is_stopping:
                return
            # The consumer may have returned and left again while another subscription was deleted.
            if durable.offline_since > latest:
                continue
            try:
                if self._durables.unused(*durable.key) is not durable:
                    continue
                await self._durables.unsubscribe(*durable.key)
            except (SubscriptionInUse, SubscriptionNotFound):
                continue
            except StoreError as error:
                log.warning("cannot delete %s; retrying later: %s", durable.name, error)
            else:
                log.info("deleted %s, which had no consumer for %g seconds", durable.name, self._timeout)
