"""Opening a store without stopping the event loop: it may wait for the lock for days."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager

import jdbcstore
from jdbcstore.abc import Progress, Store
from jdbcstore.config import Configuration
from jdbcstore.errors import NotMaster, StoreClosed, StoreUnavailable
from jdbcstore.util.clock import Clock

Recovering = Callable[[], AbstractContextManager[Progress | None]]
"""What is told of the records of a journal while a store is opened; called on the thread that does it."""

_PAUSE = 1.0
"""Between attempts of a slave to reach a database that is away."""


class Opening:
    """Opens the store of a configuration on threads that keep no process alive."""

    def __init__(
        self,
        configuration: Configuration,
        clock: Clock | None,
        on_waiting: Callable[[NotMaster], Awaitable[None]],
        recovering: Recovering,
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._on_waiting = on_waiting
        self._recovering = recovering
        self._give_up = threading.Event()
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        """Wait for the lock no longer."""
        self._give_up.set()
        self._given_up.set()

    async def open(self, *, patient: bool) -> Store | None:
        """The store, once it is the master; None if it was given up.

        Patient, it waits for a database, too, that does not answer.

        :raises StoreError: it cannot be opened
        """
        while not self._give_up.is_set():
            try:
                return await self._in_thread(lock_timeout=0.0)
            except NotMaster as error:
                if _fails_if_locked(self._configuration):
                    raise
                await self._on_waiting(error)
                patient = True
            except StoreUnavailable:
                if not patient:
                    raise
                await self._pause()
                continue
            try:
                return await self._in_thread(lock_timeout=None)
            except StoreClosed:
                break
            except StoreUnavailable:
                await self._pause()
        return None

    async def _pause(self) -> None:
        try:
            await asyncio.wait_for(self._given_up.wait(), _PAUSE)
        except TimeoutError:
            return

    async def _in_thread(self, lock_timeout: float | None) -> Store:
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Store] = loop.create_future()

        def work() -> None:
            store, failure = None, None
            try:
                with self._recovering() as progress:
                    store = jdbcstore.open(
                        self._configuration,
                        clock=self._clock,
                        lock_timeout=lock_timeout,
                        give_up=self._give_up,
                        progress=progress,
                    )
            except BaseException as error:
                failure = error
            try:
                loop.call_soon_threadsafe(_settle, opened, store, failure)
            except RuntimeError:  # the loop is closed
                _close(store)

        threading.Thread(target=work, name="jdbcstore-opening", daemon=True).start()
        try:
            return await opened
        except asyncio.CancelledError:
            self.give_up()
            raise


def _settle(opened: asyncio.Future[Store], store: Store | None, failure: BaseException | None) -> None:
    if opened.cancelled():
        threading.Thread(target=_close, args=(store,), daemon=True).start()
    elif failure is not None:
        opened.set_exception(failure)
    elif store is not None:
        opened.set_result(store)


def _close(store: Store | None) -> None:
    if store is not None:
        store.close()


def _fails_if_locked(configuration: Configuration) -> bool:
    return bool(getattr(configuration.locker, "fail_if_locked", False))
