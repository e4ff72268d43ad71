"""Waiting for the lock without blocking the event loop, possibly for days."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent import futures
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import cast

import jdbcstore
from jdbcstore.abc import Progress, Store
from jdbcstore.broker.condition import BrokerState, Conditions
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.process.protocols import answers_as_slave, make_connector
from jdbcstore.broker.security import Principal, Security
from jdbcstore.broker.transport.service import Service
from jdbcstore.config import Configuration
from jdbcstore.config.broker import BrokerConfig
from jdbcstore.errors import NotAuthorized, NotMaster, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.util.clock import Clock
from jdbcstore.util.lock_wait import LockWait

log = logging.getLogger(__name__)

Recovering = Callable[[], AbstractContextManager[Progress | None]]
"""Makes the progress listener for the recovery of a journal; called on the thread that opens the store."""

_RETRY_DELAY = 1.0
"""Seconds between a slave's attempts to reach a database that does not answer."""


@dataclass(eq=False, repr=False)
class StoreOpening:
    """Opens the store of a configuration, in daemon threads, when this process becomes the master."""

    _configuration: Configuration
    _clock: Clock | None
    _on_waiting: Callable[[NotMaster], Awaitable[None]]
    _recovering: Recovering
    _conditions: Conditions
    _cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._cancel = LockWait(lambda error, pause: loop.call_soon_threadsafe(self._failed, error, pause))

    def _failed(self, error: StoreError, pause: float) -> None:
        """Report an attempt to get the lock that failed."""
        if not self._cancel.is_set():
            state = BrokerState.UNREACHABLE if isinstance(error, StoreUnavailable) else BrokerState.WAITING
            self._conditions.become(state, error, pause=pause)

    def cancel(self) -> None:
        """Stop waiting for the lock: :meth:`open` returns None."""
        self._cancel.set()
        self._cancelled.set()

    async def open(self, *, patient: bool) -> Store | None:
        """Return the store when this process becomes the master; None if cancelled.

        :param patient: whether to wait also for a database that does not answer; a slave always does
        :raises StoreError: it cannot be opened
        """
        while not self._cancel.is_set():
            try:
                return await self._in_thread(lock_timeout=0.0)
            except NotMaster as error:
                if getattr(self._configuration.locker, "fail_if_locked", False):
                    raise
                await self._on_waiting(error)
                patient = True
            except StoreUnavailable as error:
                if not patient:
                    raise
                await self._pause(error)
                continue
            try:
                return await self._in_thread(lock_timeout=None)
            except StoreClosed:
                break
            except StoreUnavailable as error:
                await self._pause(error)
        return None

    async def _pause(self, error: StoreUnavailable) -> None:
        self._failed(error, _RETRY_DELAY)
        try:
            await asyncio.wait_for(self._cancelled.wait(), _RETRY_DELAY)
        except TimeoutError:
            return

    async def _in_thread(self, lock_timeout: float | None) -> Store:
        opened: futures.Future[Store] = futures.Future()

        def work() -> None:
            try:
                with self._recovering() as progress:
                    store = jdbcstore.open(
                        self._configuration,
                        clock=self._clock,
                        lock_timeout=lock_timeout,
                        cancel=self._cancel,
                        progress=progress,
                    )
            except BaseException as error:
                if opened.set_running_or_notify_cancel():
                    opened.set_exception(error)
                return
            if opened.set_running_or_notify_cancel():
                opened.set_result(store)
            else:
                store.close()  # no caller waits for it any more

        threading.Thread(target=work, name="jdbcstore-opening", daemon=True).start()
        try:
            return await asyncio.wrap_future(opened)
        except asyncio.CancelledError:
            self.cancel()
            opened.add_done_callback(_close_late)
            raise


def _close_late(opened: futures.Future[Store]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        threading.Thread(target=opened.result().close, daemon=True).start()


class _RefuseAll(Security):
    """The security of a slave, which rejects every login."""

    async def login(self, name: str | None, password: str | None) -> Principal:  # noqa: ARG002
        raise NotAuthorized("this broker is not the master; connect to another, or try again later")


class _NoBroker:
    """The broker's interface for connections that never log in."""

    large = None

    def disconnected(self, connection_id: str) -> None:
        """Do nothing, because the connection has no state."""


class SlaveConnectors:
    """STOMP connectors at the broker's addresses that answer each CONNECT with an ERROR, because it is not
    the master."""

    def __init__(self, config: BrokerConfig) -> None:
        service = Service(cast("Engine", _NoBroker()), _RefuseAll())
        self._connectors = [
            make_connector(service, connector) for connector in config.serving if answers_as_slave(connector)
        ]

    async def start(self) -> None:
        """Listen. An address in use is skipped, because the master may be on the same machine."""
        for connector in self._connectors:
            try:
                await connector.start()
            except OSError as error:
                log.warning("the slave cannot answer clients at %s: %s", connector.address, error)

    async def stop(self) -> None:
        for connector in self._connectors:
            await connector.stop()
