"""The watch over a master's store, which shows an outage also while no client writes."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections.abc import Callable

from jdbcstore.broker.condition import BrokerState, Conditions
from jdbcstore.errors import LockLost, StoreClosed, StoreError
from jdbcstore.stores.io_exceptions import GuardedStore
from jdbcstore.util.clock import Clock

_PERIOD = 2.0
_LONGEST_PERIOD = 5.0
_PATIENCE = 3.0
_SILENT = "the database does not answer"
_SHARE = 20
"""A check that took long, as of many stores, is not repeated before so many times its duration."""


class StoreWatch:
    """Checks a store every two seconds, and reports it as unreachable while it fails or does not answer.

    :param on_answer: called after each check that succeeds
    """

    def __init__(
        self, store: GuardedStore, conditions: Conditions, clock: Clock, on_answer: Callable[[], None]
    ) -> None:
        self._store = store
        self._conditions = conditions
        self._clock = clock
        self._on_answer = on_answer
        self._checking: Task[None] | None = None
        self._began = 0.0

    async def run(self) -> None:
        """Check until cancelled."""
        try:
            while True:
                await asyncio.sleep(await self._check())
        finally:
            if self._checking is not None:
                self._checking.cancel()

    async def _check(self) -> float:
        """Check once; return the pause until the next check."""
        if self._checking is None:
            self._began = self._clock.monotonic()
            self._checking = asyncio.create_task(asyncio.to_thread(self._store.check))
        await asyncio.wait({self._checking}, timeout=_PATIENCE)
        if not self._checking.done():
            self._conditions.become(BrokerState.UNREACHABLE, _SILENT)
            return _PERIOD
        checking, self._checking = self._checking, None
        try:
            checking.result()
        except (LockLost, StoreClosed):
            return _PERIOD  # the broker ends
        except StoreError as error:
            self._conditions.become(BrokerState.UNREACHABLE, error, pause=_PERIOD)
            return _PERIOD
        self._on_answer()
        took = self._clock.monotonic() - self._began
        if took >= _PATIENCE:  # the answer to an outage
            return _PERIOD
        return min(max(_PERIOD, _SHARE * took), _LONGEST_PERIOD)
