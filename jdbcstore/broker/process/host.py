"""The process around a broker: it waits until it is the master, serves, and ends or waits again."""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio import Event, Task
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jdbcstore.abc import Store
from jdbcstore.broker.process.opening import Opening, Recovering
from jdbcstore.broker.process.security import Security, make_security
from jdbcstore.broker.process.slave import SlaveConnectors
from jdbcstore.broker.process.tenure import Tenure
from jdbcstore.config import Configuration
from jdbcstore.config.broker import Address
from jdbcstore.errors import ConfigurationError, LockLost, NotMaster, StoreClosed
from jdbcstore.util.clock import Clock

if TYPE_CHECKING:
    from jdbcstore.broker.process.health import HealthServer

log = logging.getLogger(__name__)

Addresses = Sequence[tuple[str, Address]]
"""Where clients connect: each scheme, ``stomp`` or ``stomp+ssl``, with the port that was chosen."""
_EXIT = 1
_PATIENCE = 30.0
"""How long a store may take to close; what waits to be written then has been told to nobody."""


class BrokerHost:
    """A broker with its store, its connectors and its health, in an asyncio program.

    As a context manager it is entered once it serves, however long it is a slave before, and left once its
    store is closed and the lock given back. It has the locker of the configuration: without one, nothing
    keeps a second broker away. ``on_waiting`` and ``on_ready`` are called on the loop, each time.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        clock: Clock | None = None,
        on_waiting: Callable[[NotMaster], None] | None = None,
        on_ready: Callable[[Addresses], None] | None = None,
        recovering: Recovering = nullcontext,
    ) -> None:
        if not configuration.broker.persistent:
            source = replace(configuration.data_source, url="memory:")
            configuration = replace(
                configuration, data_source=source, locker=None, journal=None, stores=(), problems={}
            )
        self._configuration = configuration
        self._clock = clock
        self._on_waiting = on_waiting
        self._on_ready = on_ready
        self._recovering = recovering
        self._security: Security
        self._health: HealthServer | None = None
        self._health_address: Address | None = None
        self._opening: Opening | None = None
        self._refusing: SlaveConnectors | None = None
        self._tenure: Tenure | None = None
        self._stopping = False
        self._task: Task[None] | None = None
        self._changed = Event()
        self._failure: BaseException | None = None

    @property
    def addresses(self) -> Addresses:
        """Where clients connect; nothing while it is no master."""
        return () if self._tenure is None else self._tenure.addresses

    @property
    def health_address(self) -> Address | None:
        return self._health_address

    def obstacle(self) -> str | None:
        """Why it does not serve now; None if it does."""
        if self._tenure is not None:
            return self._tenure.obstacle
        return "waiting for the lock" if self._opening is not None else "the broker is not running"

    async def start(self) -> None:
        """Begin to wait for the lock, and then to serve; returns at once.

        :raises ConfigurationError: the users file cannot be read, or a package is not installed
        :raises OSError: the health address cannot be listened at
        """
        broker = self._configuration.broker
        self._security = make_security(broker.users_file)
        self._warn()
        if broker.health is not None:
            try:
                from jdbcstore.broker.process.health import HealthServer
            except ImportError as error:
                raise ConfigurationError(
                    "health over HTTP needs aiohttp; run: pip install 'jdbcstore[broker]'", option="health"
                ) from error
            self._health = HealthServer(Address.parse(broker.health, "health"), self.obstacle)
            self._health_address = await self._health.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="jdbcstore-broker")

    async def ready(self) -> None:
        """Wait until it serves.

        :raises StoreClosed: it was stopped before
        :raises StoreError: it cannot serve, as :func:`jdbcstore.open` says
        :raises OSError: an address cannot be listened at
        """
        while self.obstacle() is not None:
            if self._task is None or self._task.done():
                raise self._failure or StoreClosed("the broker was stopped before it served")
            self._changed.clear()
            await self._changed.wait()

    async def ended(self) -> None:
        """Wait for the end.

        :raises StoreError: what ended it, if it was not :meth:`stop`: ``LockLost`` if another is the master
        :raises OSError: an address could not be listened at
        :raises Exception: a defect of the broker's own; what was stored is in the store
        """
        if self._task is not None:
            await asyncio.shield(self._task)
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Close the clients' connections and the store, and give the lock back. Does nothing once stopped."""
        self._stopping = True
        if self._opening is not None:
            self._opening.give_up()
        if self._tenure is not None:
            self._tenure.end()
        if self._task is not None:
            await asyncio.shield(self._task)

    async def __aenter__(self) -> Self:
        await self.start()
        try:
            await self.ready()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _warn(self) -> None:
        broker = self._configuration.broker
        if broker.users_file is not None:
            return
        for connector in broker.serving:
            if not connector.address.is_loopback:
                told = "whoever reaches %s may log in, and do everything: there is no users_file"
                log.warning(told, connector.uri)

    async def _run(self) -> None:
        try:
            again = False
            while not self._stopping:
                lost = await self._be_master(patient=again)
                if lost is None:
                    return
                if not self._configuration.broker.become_slave:
                    raise lost
                log.warning("the broker is a slave from now on, and waits for the lock: %s", lost)
                again = True
        except Exception as error:
            self._failure = error
        finally:
            self._security.close()
            if self._health is not None:
                await self._health.stop()
            self._changed.set()
            log.info("the broker has stopped")

    async def _be_master(self, *, patient: bool) -> LockLost | None:
        """Wait for the lock, and serve; why the lock was lost, None if the broker was stopped.

        :raises StoreError: what else has ended it
        """
        store = await self._open(patient=patient)
        if store is None:
            return None
        tenure = self._tenure = Tenure(
            store,
            self._configuration,
            self._security,
            clock=self._clock,
            on_serving=self._changed.set,
        )
        try:
            if self._stopping:
                return None
            # Once it has been a slave it outlives a database that is away.
            await (tenure.resume() if patient else tenure.start())
            if tenure.obstacle is None:
                self._tell_ready()
            error = await tenure.ended()
            if error is not None:
                raise error
            return None
        except LockLost as error:
            return error
        finally:
            self._changed.set()
            await tenure.stop()
            self._tenure = None
            await self._close(store)
            if tenure.exits_process:
                log.error("the process is ended, as the exception handler is told to do")
                os._exit(_EXIT)

    async def _open(self, *, patient: bool) -> Store | None:
        self._opening = Opening(self._configuration, self._clock, self._wait_as_slave, self._recovering)
        try:
            return await self._opening.open(patient=patient)
        finally:
            self._opening = None
            if self._refusing is not None:
                await self._refusing.stop()
                self._refusing = None

    async def _close(self, store: Store) -> None:
        try:
            await asyncio.to_thread(store.close, _PATIENCE)
        except Exception as error:
            # What was not written has failed where it was asked for.
            log.warning("the store did not close in order: %s", error)

    async def _wait_as_slave(self, error: NotMaster) -> None:
        log.info("waiting for the lock: %s", error)
        if self._configuration.broker.answer_as_slave:
            self._refusing = SlaveConnectors(self._configuration.broker)
            await self._refusing.start()
        if self._on_waiting is not None:
            self._on_waiting(error)

    def _tell_ready(self) -> None:
        log.info("serving at %s", ", ".join(f"{scheme}://{where}" for scheme, where in self.addresses))
        if self._on_ready is not None:
            self._on_ready(self.addresses)
