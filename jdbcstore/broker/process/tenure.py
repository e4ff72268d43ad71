"""One time as the master: engine and connectors over an open store, and what its failures do to them."""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NoReturn

from jdbcstore.abc import Store
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.process.security import Security
from jdbcstore.broker.stomp.connector import Connector
from jdbcstore.broker.stomp.service import Service
from jdbcstore.config import Configuration
from jdbcstore.config.broker import Address
from jdbcstore.errors import StoreError, StoreUnavailable
from jdbcstore.lockers.io_exceptions import GuardedStore, IOExceptionHandler
from jdbcstore.util.clock import Clock

log = logging.getLogger(__name__)

_PAUSE = 1.0
"""Between attempts to serve from a database that comes and goes."""


class Tenure:
    """Serves a store until it is told to stop, or its handler says so.

    Make, start and stop it on one loop, which ``on_serving`` is called on, too, each time when it serves
    from then on. The store stays the caller's.
    """

    def __init__(
        self,
        store: Store,
        configuration: Configuration,
        security: Security,
        *,
        clock: Clock | None = None,
        on_serving: Callable[[], None],
    ) -> None:
        self._store = store
        self._configuration = configuration
        self._security = security
        self._clock = clock
        self._on_serving = on_serving
        self._loop = asyncio.get_running_loop()
        self._changing = asyncio.Lock()
        self._engine: Engine | None = None
        self._service: Service | None = None
        self._connectors: list[Connector] = []
        self._ended: Future[Exception | None] = self._loop.create_future()
        self._stopped = False
        self.obstacle: str | None = "the broker is starting"
        """Why it does not serve now."""
        self.exits_process = False
        """Whether the handler says that the process is to end with it."""
        self._handler: IOExceptionHandler | None = None
        if isinstance(store, GuardedStore):
            host = _FromThreads(self, self._loop)
            self._handler = IOExceptionHandler(host, store, configuration.io_exception_handler)

    async def start(self) -> None:
        """Serve clients from now on.

        :raises StoreError: the store cannot be read
        :raises OSError: an address cannot be listened at
        """
        async with self._changing:
            await self._serve()

    @property
    def addresses(self) -> list[tuple[str, Address]]:
        """Where clients connect: each scheme, with the port that was chosen."""
        serving = self._configuration.broker.serving
        return [
            (one.scheme, connector.address)
            for one, connector in zip(serving, self._connectors, strict=bool(self._connectors))
        ]

    async def ended(self) -> Exception | None:
        """Wait for the end; what ended it, None if it was :meth:`end`."""
        return await asyncio.shield(self._ended)

    def end(self, error: Exception | None = None) -> None:
        """Have :meth:`ended` return."""
        if not self._ended.done():
            self._ended.set_result(error)

    async def stop(self) -> None:
        """Close the clients' connections, and wait for what is under way.

        If it has failed, nobody is answered any more: the clients are to look for the next master.
        """
        self._stopped = True
        failed = self._ended.done() and self._ended.result() is not None
        if self._handler is not None:
            # Its thread may be waiting for this loop.
            await asyncio.to_thread(self._handler.close)
        async with self._changing:
            await self._stop_serving("the broker is stopped", at_once=failed)

    async def pause(self) -> None:
        """Close the clients' connections, take no more, and forget what the engine knew."""
        async with self._changing:
            await self._stop_serving("the database does not answer", at_once=True)

    async def resume(self) -> None:
        """Serve again, from what the store holds: what was out is given out again.

        A database that is gone again is waited for, until the lock is lost.
        """
        while not self._ended.done() and not self._has_lost_the_lock():
            async with self._changing:
                if self._stopped:
                    return
                try:
                    await self._serve()
                    break
                except StoreUnavailable as error:
                    log.warning("the database does not answer again: %s", error)
            await asyncio.sleep(_PAUSE)

    def _has_lost_the_lock(self) -> bool:
        fence = self._store.fence if isinstance(self._store, GuardedStore) else None
        return fence is not None and fence.lost is not None

    async def _serve(self) -> None:
        broker = self._configuration.broker
        options = EngineOptions(
            memory_limit=broker.memory_limit,
            temp_limit=broker.temp_limit,
            folder=None if broker.tmp_data_directory is None else Path(broker.tmp_data_directory),
            audited=self._configuration.store.enable_audit,
            concurrent_store_and_dispatch_queues=broker.concurrent_store_and_dispatch_queues,
        )
        policies = Policies(self._configuration.policies)
        # After a defect the next master, or the next start, finds everything in the store.
        engine = Engine(self._store, policies, options=options, clock=self._clock, on_defect=self.end)
        self._engine = engine
        self._connect(engine)
        try:
            await engine.start()
            for connector in self._connectors:
                await connector.start()
        except BaseException as error:
            await self._stop_serving(f"it could not be started: {error}", at_once=True)
            raise
        self.obstacle = None
        self._on_serving()

    def _connect(self, engine: Engine) -> None:
        if self._service is not None:
            self._service.broker = engine
            return
        broker = self._configuration.broker
        self._service = Service(
            engine,
            self._security,
            server=broker.server,
            populate_user_id=broker.populate_jmsx_user_id,
            clock=self._clock,
            on_store_error=self._on_store_error,
        )
        connectors = broker.serving
        self._connectors = [Connector(self._service, one) for one in connectors]

    async def _stop_serving(self, reason: str, *, at_once: bool = False) -> None:
        self.obstacle = reason
        for connector in self._connectors:
            if at_once:
                connector.abort()
            else:
                await connector.stop()
        engine, self._engine = self._engine, None
        if engine is not None:
            # To its end: a write that was given up on here and commits later would be news to nobody.
            await engine.stop()

    def _on_store_error(self, error: StoreError) -> NoReturn:
        if self._handler is None:
            raise error
        self._handler.handle(error)


class _FromThreads:
    """The tenure, to its handler: called by a thread, done by the loop."""

    def __init__(self, tenure: Tenure, loop: AbstractEventLoop) -> None:
        self._tenure = tenure
        self._loop = loop

    def stop_connectors(self) -> None:
        self._do(self._tenure.pause())

    def start_connectors(self) -> None:
        self._do(self._tenure.resume())

    def stop(self, error: StoreError, *, exit_process: bool) -> None:
        self._tenure.exits_process = exit_process
        self._loop.call_soon_threadsafe(self._tenure.end, error)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()
