"""The master broker, which serves clients from an open store until it fails or is stopped."""

from __future__ import annotations

import asyncio
import logging
from asyncio import AbstractEventLoop, Future, Task
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jdbcstore.abc import Checkpointed, Store
from jdbcstore.broker.condition import BrokerState, Conditions
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.options import EngineOptions
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.process.protocols import make_connector
from jdbcstore.broker.process.store_watch import StoreWatch
from jdbcstore.broker.queues.pauses import KnownPauses
from jdbcstore.broker.security import Security
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.broker.transport.service import Service
from jdbcstore.config import Configuration
from jdbcstore.config.broker import Address
from jdbcstore.config.data_source import sqlite_file
from jdbcstore.errors import LockLost, StoreError, StoreUnavailable, needing
from jdbcstore.stores.io_exceptions import GuardedStore, IOExceptionHandler
from jdbcstore.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from jdbcstore.broker.tracing import Tracing

log = logging.getLogger(__name__)

_RETRY_DELAY = 1.0
"""Seconds between attempts to serve from a database that does not answer."""


@dataclass(eq=False, repr=False)
class MasterBroker:
    """Engine and connectors over an open store, for one epoch.

    Create, start and stop it on one loop. The caller owns and closes the store, and keeps the paused queues
    for the next master.
    """

    store: Store
    _configuration: Configuration
    _security: Security
    _clock: Clock | None
    _conditions: Conditions
    _paused: KnownPauses
    """The paused queues, which every engine changes."""

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changing = asyncio.Lock()
        self._engine: Engine | None = None
        self._service: Service | None = None
        self.connectors: list[Connector] = []
        self._ended: Future[Exception | None] = self._loop.create_future()
        self._stopped = False
        self.exits_process = False
        """Whether the I/O exception handler is configured to end the process."""
        self._handler: IOExceptionHandler | None = None
        self._watching: Task[None] | None = None
        self._tracing = _tracing() if self._configuration.broker.tracing else None
        if isinstance(self.store, GuardedStore):
            host = _FromThreads(self, self._loop)
            self._handler = IOExceptionHandler(host, self.store, self._configuration.io_exception_handler)
            if not isinstance(self.store, Checkpointed):  # a journal accepts messages without the database
                watch = StoreWatch(self.store, self._conditions, self._clock or SystemClock(), self._answered)
                self._watching = self._loop.create_task(watch.run(), name="jdbcstore-store-watch")

    async def start(self) -> None:
        """Start serving clients.

        :raises StoreError: the store cannot be read
        :raises OSError: it cannot listen at an address
        """
        async with self._changing:
            await self._serve()

    @property
    def addresses(self) -> list[tuple[str, Address]]:
        """The client addresses: each scheme, with the actual port."""
        return [(connector.config.scheme, connector.address) for connector in self.connectors]

    @property
    def engine(self) -> Engine | None:
        """The engine; None while it is not serving."""
        return self._engine if self._conditions.current.serves else None

    async def ended(self) -> Exception | None:
        """Wait for the end; return its error, or None after :meth:`end`."""
        return await asyncio.shield(self._ended)

    def end(self, error: Exception | None = None) -> None:
        """Report not ready from now on, and make :meth:`ended` return.

        After an error the connections are closed immediately, so that no client gets more data from this
        engine.
        """
        cause = None if error is None else error.__cause__
        if isinstance(error, LockLost) and isinstance(cause, StoreUnavailable):
            # The lock may be lost before a check of the store has failed.
            self._conditions.become(BrokerState.UNREACHABLE, cause)
        self._conditions.wait(BrokerState.STOPPING, error or "")
        if error is not None:
            for connector in self.connectors:
                connector.abort()
        if not self._ended.done():
            self._ended.set_result(error)

    async def stop(self) -> None:
        """Close the clients' connections, and wait for running work.

        After a failure connections are closed without a reply, so that clients connect to the next master.
        """
        self._stopped = True
        if self._watching is not None:
            self._watching.cancel()
        failed = self._ended.done() and self._ended.result() is not None
        if self._handler is not None:
            # Its thread may be waiting for this loop.
            await asyncio.to_thread(self._handler.close)
        async with self._changing:
            await self._stop_serving(at_once=failed)

    async def pause(self, error: StoreError) -> None:
        """Close the clients' connections, accept no more, and discard the engine's state."""
        async with self._changing:
            self._conditions.become(BrokerState.UNREACHABLE, error)
            await self._stop_serving(at_once=True)

    async def resume(self) -> None:
        """Serve again from the contents of the store; messages in flight are redelivered.

        If the database stops answering again, wait for it until the lock is lost.
        """
        while not self._ended.done() and not self._has_lost_the_lock():
            async with self._changing:
                if self._stopped:
                    return
                try:
                    await self._serve()
                    break
                except StoreUnavailable as error:
                    self._conditions.become(BrokerState.UNREACHABLE, error, pause=_RETRY_DELAY)
            await asyncio.sleep(_RETRY_DELAY)

    def _has_lost_the_lock(self) -> bool:
        fence = self.store.fence if isinstance(self.store, GuardedStore) else None
        return fence is not None and fence.lost is not None

    async def _serve(self) -> None:
        broker = self._configuration.broker
        options = EngineOptions(
            memory_limit=broker.memory_limit,
            temp_limit=broker.temp_limit,
            data_folders=data_folders(self._configuration),
            disk_free_limit=broker.disk_free_limit,
            folder=None if broker.tmp_data_directory is None else Path(broker.tmp_data_directory),
            scheduler_support=broker.scheduler_support,
            max_scheduler_repeats=broker.max_scheduler_repeat_allowed,
            reject_durables=broker.reject_durable_consumers,
            offline_durable_timeout=broker.offline_durable_subscriber_timeout,
            offline_durable_period=broker.offline_durable_subscriber_task_schedule,
            destinations=broker.made_destinations,
            plugins=broker.plugins,
            name=self._configuration.broker_name,
            addresses=lambda: {scheme: f"{scheme}://{address}" for scheme, address in self.addresses},
            max_uncommitted_count=broker.max_uncommitted_count,
            virtual_topics=broker.virtual_topics,
            composite_destinations=broker.composite_destinations,
            counted=broker.health is not None,
            bounds_stored=True,
            audited=self._configuration.store.enable_audit,
            concurrent_store_and_dispatch_queues=broker.concurrent_store_and_dispatch_queues,
        )
        policies = Policies(self._configuration.policies)
        # After an unexpected error all state is in the store for the next master, or the next start.
        engine = Engine(
            self.store,
            policies,
            options=options,
            clock=self._clock,
            on_defect=self.end,
            paused=self._paused,
            tracing=self._tracing,
        )
        self._engine = engine
        engine.outbox.room.on_change = self._show_room
        self._connect(engine)
        try:
            await engine.start()
            for connector in self.connectors:
                await connector.start()
        except BaseException:
            await self._stop_serving(at_once=True)
            raise
        if not self._ended.done():
            self._show_service(engine)

    def _show_service(self, engine: Engine, pause: float | None = None) -> None:
        """Show whether the broker stores messages."""
        refusal = engine.outbox.room.refusal
        state = BrokerState.SERVING if refusal is None else BrokerState.READ_ONLY
        self._conditions.become(state, refusal or "", pause=pause)

    def _show_room(self, pause: float | None) -> None:
        if self._engine is not None and self._conditions.current.serves:
            self._show_service(self._engine, pause)

    def _answered(self) -> None:
        """Show that the database answers again, if clients are served."""
        if self._engine is None or self._changing.locked() or self._ended.done():
            return
        if self._conditions.current.state is BrokerState.UNREACHABLE:
            self._show_service(self._engine)

    def _connect(self, engine: Engine) -> None:
        if self._service is not None:
            self._service.serve(engine)
            return
        broker = self._configuration.broker
        self._service = Service(
            engine,
            self._security,
            name=self._configuration.broker_name,
            config=broker,
            clock=self._clock,
            on_store_error=self._on_store_error,
        )
        self.connectors = [make_connector(self._service, config) for config in broker.serving]

    async def _stop_serving(self, *, at_once: bool) -> None:
        for connector in self.connectors:
            if at_once:
                connector.abort()
            else:
                await connector.stop()
        engine, self._engine = self._engine, None
        if engine is not None:
            # Without a timeout, because a write abandoned here could commit later, unnoticed.
            await engine.stop()

    def _on_store_error(self, error: StoreError) -> NoReturn:
        if self._handler is None:
            raise error
        self._handler.handle(error)


def data_folders(configuration: Configuration) -> tuple[Path, ...]:
    """Return the folders that may grow while the broker serves: the journal's, then that of a SQLite file."""
    folders = []
    journal = configuration.journal
    if journal is not None and journal.use_journal and journal.stream is None:
        folders.append(Path(journal.directory))
    file = sqlite_file(configuration.data_source.url)
    if file is not None:
        folders.append(file.parent)
    return tuple(folders)


def _tracing() -> Tracing:
    with needing("traces need opentelemetry-api", "opentelemetry", "tracing"):
        from jdbcstore.broker.tracing import Tracing
    return Tracing()


@dataclass(frozen=True)
class _FromThreads:
    """The interface for the I/O exception handler: called in threads, executed on the loop."""

    _master: MasterBroker
    _loop: AbstractEventLoop

    def stop_connectors(self, error: StoreError) -> None:
        self._run(self._master.pause(error))

    def start_connectors(self) -> None:
        self._run(self._master.resume())

    def stop(self, error: StoreError, *, exit_process: bool) -> None:
        self._master.exits_process = exit_process
        self._loop.call_soon_threadsafe(self._master.end, error)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()
