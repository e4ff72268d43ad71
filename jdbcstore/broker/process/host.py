"""The life of a broker in a process: it waits for the lock, serves as the master, and ends or waits again."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from asyncio import Event, Task
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

import jdbcstore
from jdbcstore.abc import Announcing, PausedQueue, Pausing, Store
from jdbcstore.broker.condition import BrokerCondition, BrokerState, Conditions
from jdbcstore.broker.management.inside import BrokerInside, LogTail
from jdbcstore.broker.management.management import Management
from jdbcstore.broker.management.reading import Views
from jdbcstore.broker.management.views import BrokerIdentity, LockEvent
from jdbcstore.broker.process.master import MasterBroker, data_folders
from jdbcstore.broker.process.network import NetworkWatch
from jdbcstore.broker.process.slave import Recovering, SlaveConnectors, StoreOpening
from jdbcstore.broker.security import Security, make_security
from jdbcstore.config import Configuration
from jdbcstore.config.broker import Address
from jdbcstore.config.data_source import mask_url
from jdbcstore.errors import LockLost, NotMaster, StoreClosed, StoreError, needing
from jdbcstore.message.destination import Destination
from jdbcstore.stores.io_exceptions import GuardedStore
from jdbcstore.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from jdbcstore.broker.console.lookups import SchemaView
    from jdbcstore.broker.process.health import HealthServer

log = logging.getLogger(__name__)

Addresses = Sequence[tuple[str, Address]]
"""The addresses that clients connect to: scheme (such as ``stomp``), and host with actual port."""
_MANAGEMENT, _NAME = "management", "name"
"""The kinds of the management's address, and of the broker's unique name."""
_EVERY = ("0.0.0.0", "::")  # noqa: S104 - it listens there
_EXIT = 1
_HAND_OVER = 15.0
"""Seconds in which another broker may take the lock after handing over; slaves check it every few seconds."""
_HISTORY = 100
"""The number of changes of the mastership that are remembered."""
_CLOSE_TIMEOUT = 30.0
"""Seconds for the store to close; writes still pending then were not confirmed to any client."""


class BrokerHost:
    """A broker with its store, its connectors and its health endpoint, in an asyncio program.

    Entering it as a context manager waits until the broker serves, however long it is a slave; leaving it
    closes the store and releases the lock. Without a configured locker, nothing prevents a second broker.
    ``on_waiting`` and ``on_ready`` are called on the loop, each time it begins to wait for the lock or to
    serve. ``schema`` reads the schema of the database, in a thread.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        clock: Clock | None = None,
        on_waiting: Callable[[NotMaster], None] | None = None,
        on_ready: Callable[[Addresses], None] | None = None,
        recovering: Recovering = nullcontext,
        schema: Callable[[], SchemaView] | None = None,
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
        self._schema = schema
        self._security: Security
        self._tail = LogTail()
        self._health: HealthServer | None = None
        self.health_address: Address | None = None
        """The address of the health endpoint, with its actual port; None if none is configured."""
        self._opening: StoreOpening | None = None
        self._refusing: SlaveConnectors | None = None
        self.master: MasterBroker | None = None
        """The broker, while it is the master."""
        self._paused: dict[Destination, PausedQueue] = {}
        """The paused queues, also for its next mastership."""
        self._stopping = False
        self._handing_over = False
        self._network: NetworkWatch | None = None
        self._network_task: Task[None] | None = None
        self._stopped = Event()
        self._task: Task[None] | None = None
        self._changed = Event()
        self._conditions = Conditions(clock or SystemClock(), self._changed.set)
        self._failure: BaseException | None = None
        self.history: deque[LockEvent] = deque(maxlen=_HISTORY)
        """The last changes of the mastership, oldest first."""
        self.identity = BrokerIdentity()
        """The name and addresses that distinguish it from other brokers, once it is started."""

    def _remember(self, event: str, store: Store | None = None, detail: object = None) -> None:
        fence = store.fence if isinstance(store, GuardedStore) else None
        now_ms = (self._clock or SystemClock()).now_ms()
        epoch: int | None = getattr(fence, "epoch", None)
        text = None if detail is None else str(detail)
        last = self.history[-1] if self.history else None
        if last is None or (last.event, last.detail) != (event, text) or event != "waiting":
            self.history.append(LockEvent(time_ms=now_ms, event=event, epoch=epoch, detail=text))

    @property
    def addresses(self) -> Addresses:
        """The client addresses; none while it is not the master."""
        return () if self.master is None else self.master.addresses

    def hand_over(self) -> None:
        """Become a slave, so that another broker becomes the master.

        If no broker has taken the lock after some seconds, this one takes it again.
        """
        if self.master is not None and self._configuration.locker is not None:
            self._handing_over = True
            self._remember("handed_over", self.master.store)
            self.master.end()

    @property
    def condition(self) -> BrokerCondition:
        """Its state, with the reason and what to do."""
        return self._conditions.current

    async def _shortage(self, views: Views) -> str | None:
        """Return the reason why a journal's stream is not writable, from its servers, or None."""
        try:
            streams = await views.streams()
        except NotMaster:  # it stopped serving meanwhile
            return str(self.condition)
        stopped = (stream for stream in streams if stream.problem is not None)
        return next((f"{stream.place} is not reliable: {stream.problem}" for stream in stopped), None)

    async def start(self) -> None:
        """Start waiting for the lock, and serving once it is acquired; return immediately.

        :raises ConfigurationError: the users file cannot be read, a package is not installed, or an
            unsupported setting would decide about kept messages or access to them
        :raises OSError: it cannot listen at the health address
        """
        broker = self._configuration.broker
        self._configuration.check_obeyed()
        self._security = make_security(broker.users_file, broker.roles_of_groups)
        self._warn()
        if broker.health is not None:
            await self._serve_http(Address.parse(broker.health, "health"))
        hosts, urls = broker.checked_network
        if hosts or urls:
            self._network = NetworkWatch(
                hosts=hosts,
                urls=urls,
                period=broker.network_check_period,
                timeout=broker.network_check_timeout,
                on_change=self._network_changed,
                commands=(broker.network_check_ping_command, broker.network_check_ping6_command),
            )
            await self._network.check()
            watching = self._network.run()
            self._network_task = asyncio.get_running_loop().create_task(watching, name="jdbcstore-network")
        self._task = asyncio.get_running_loop().create_task(self._run(), name="jdbcstore-broker")

    async def _serve_http(self, address: Address) -> None:
        broker = self._configuration.broker
        with needing("HTTP needs aiohttp, jinja2 and prometheus_client", "broker", "health"):
            from jdbcstore.broker.console.pages import Console
            from jdbcstore.broker.management.admin import AdminPages
            from jdbcstore.broker.management.guard import Guard
            from jdbcstore.broker.management.http import Api
            from jdbcstore.broker.management.jolokia import Jolokia
            from jdbcstore.broker.management.metrics import Metrics
            from jdbcstore.broker.process.health import HealthServer
        folders = data_folders(self._configuration)
        self._tail.start()
        inside = BrokerInside(self._configuration, self._security, self._tail)
        management = Management(self, self._clock or SystemClock(), folders=folders, inside=inside)
        guard = Guard(self._security, address.host, broker.origins_of_management)
        console = Console(
            management.views,
            guard,
            management=management,
            schema=self._schema,
            master=self._find_master,
            clock=self._clock,
        )
        name = self._configuration.broker_name
        parts = {
            "/api/jolokia": Jolokia(management, guard, name).application(),
            "/admin/xml": AdminPages(management.views, guard).application(),
            "/api": Api(management, guard).application(),
            "/console": console.application(),
            "/metrics": Metrics(management.views, guard, broker.metrics_destinations, folders).application(),
        }
        shortage = partial(self._shortage, management.views)
        self._health = HealthServer(address, lambda: self.condition, parts, shortage=shortage)
        self.health_address = await self._health.start()
        self.identity = _identity(self._configuration, self.health_address)

    async def ready(self) -> None:
        """Wait until it serves.

        :raises StoreClosed: it was stopped before that
        :raises StoreError: it cannot serve, see :func:`jdbcstore.open`
        :raises OSError: it cannot listen at an address
        """
        while not self.condition.serves:
            if self._task is None or self._task.done():
                raise self._failure or StoreClosed("the broker was stopped before it began to serve")
            self._changed.clear()
            await self._changed.wait()

    async def ended(self) -> None:
        """Wait for the end.

        :raises StoreError: the error that ended it; ``LockLost`` if another broker is the master
        :raises OSError: it could not listen at an address
        :raises Exception: an unexpected error of the broker; no stored message is affected
        """
        if self._task is not None:
            await asyncio.shield(self._task)
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Close the clients' connections and the store, and release the lock; do nothing once stopped."""
        self._stopping = True
        self._conditions.end()
        self._stopped.set()
        self._changed.set()
        if self._opening is not None:
            self._opening.cancel()
        if self.master is not None:
            self.master.end()
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

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    def _warn(self) -> None:
        broker = self._configuration.broker
        if broker.users_file is not None:
            return
        for connector in broker.serving:
            if not connector.address.is_loopback:
                text = "users_file is not set: any client that can reach %s may log in and do everything"
                log.warning(text, connector.uri)

    def _network_changed(self, is_there: bool) -> None:
        if not is_there and self.master is not None:
            self._remember("network_gone", self.master.store)
            self.master.end()
        self._changed.set()

    @property
    def _is_cut_off(self) -> bool:
        return self._network is not None and not self._network.is_there

    async def _wait_for_network(self) -> None:
        """Wait until the network is up or the broker is stopped."""
        while self._is_cut_off and not self._stopping:
            self._conditions.become(BrokerState.CUT_OFF, "no checked machine answers")
            self._changed.clear()
            await self._changed.wait()
        if self.condition.state is BrokerState.CUT_OFF:
            self._conditions.become(BrokerState.STARTING)

    async def _run(self) -> None:
        try:
            again = False
            while not self._stopping:
                await self._wait_for_network()
                if self._stopping:
                    return
                lost = await self._be_master(patient=again)
                if lost is None and self._is_cut_off and not self._stopping:
                    again = True
                    continue
                if lost is None:
                    if self._stopping or not self._handing_over:
                        return
                    await self._leave_the_lock()
                    again = True
                    continue
                if not self._configuration.broker.become_slave:
                    raise lost
                self._conditions.wait(BrokerState.STARTING, lost)
                again = True
        except Exception as error:
            self._failure = error
        finally:
            self._conditions.end(self._failure or "")
            if self._network_task is not None:
                self._network_task.cancel()
            self._security.close()
            self._tail.stop()
            if self._health is not None:
                await self._health.stop()
            self._changed.set()
            log.info("the broker has stopped")

    async def _leave_the_lock(self) -> None:
        """Give other brokers time to take the lock."""
        self._handing_over = False
        self._conditions.become(BrokerState.WAITING, "this broker has handed over")
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), _HAND_OVER)

    async def _be_master(self, *, patient: bool) -> LockLost | None:
        """Wait for the lock, and serve; return the reason why the lock was lost, None if the broker was
        stopped.

        :raises StoreError: any other error that ended it
        """
        try:
            store = await self._open(patient=patient)
        except LockLost as lost:  # during recovery
            return lost
        if store is None:
            return None
        master = self.master = MasterBroker(
            store, self._configuration, self._security, self._clock, self._conditions, self._paused
        )
        announcing: Task[None] | None = None
        try:
            if self._stopping:
                return None
            self._remember("master", store)
            self._conditions.become(BrokerState.STARTING)
            # A former slave waits for a database that does not answer.
            await (master.resume() if patient else master.start())
            if self.condition.serves:
                announcing = asyncio.create_task(self._announce(store))
                self._report_ready()
            error = await master.ended()
            if error is not None:
                raise error
            return None
        except LockLost as error:
            self._remember("lost", store, error)
            return error
        finally:
            self._changed.set()
            await master.stop()
            self.master = None
            if self._paused and not self._stopping and not isinstance(store, Pausing):
                text = (
                    "could not record paused queues, so another master would deliver from them: %s; pause "
                    "them there too"
                )
                log.warning(text, ", ".join(sorted(map(str, self._paused))))
            await self._close(store)
            if announcing is not None:
                await announcing
            if master.exits_process:
                log.error("the process exits, as configured for the I/O exception handler")
                os._exit(_EXIT)

    async def _open(self, *, patient: bool) -> Store | None:
        self._opening = StoreOpening(
            self._configuration, self._clock, self._wait_as_slave, self._recovering, self._conditions
        )
        try:
            return await self._opening.open(patient=patient)
        finally:
            self._opening = None
            if self._refusing is not None:
                await self._refusing.stop()
                self._refusing = None

    async def _announce(self, store: Store) -> None:
        """Record the master's addresses in the store; a failure does not prevent serving."""
        if not isinstance(store, Announcing) or self._configuration.locker is None:
            return
        addresses = [(scheme, _url(scheme, address)) for scheme, address in self.addresses]
        if self.health_address is not None:
            addresses.append((_MANAGEMENT, _url("http", self.health_address)))
        if self.master is not None:
            addresses += [(_NAME, connector.service.broker_id) for connector in self.master.connectors[:1]]
        try:
            await asyncio.to_thread(store.announce, addresses)
        except StoreError as error:
            log.debug("cannot record the addresses of the master: %s", error)

    def _find_master(self) -> str | None:
        """Return the announced address of the master's management; called in a thread."""
        configuration = self._configuration
        if configuration.locker is None or configuration.stores:
            return None
        is_journaled = configuration.journal is not None
        with jdbcstore.JdbcStore.configured(configuration, read_only=True, journaled=is_journaled) as store:
            return next((entry.url for entry in store.announced() if entry.kind == _MANAGEMENT), None)

    async def _close(self, store: Store) -> None:
        try:
            await asyncio.to_thread(store.close, _CLOSE_TIMEOUT)
        except Exception as error:
            # Each failed write has already been reported to its caller.
            log.warning("unclean shutdown of the store: %s", error)

    async def _wait_as_slave(self, error: NotMaster) -> None:
        self._conditions.become(BrokerState.WAITING, error)
        self._remember("waiting", detail=error)
        if self._configuration.broker.answer_as_slave and self._refusing is None:
            self._refusing = SlaveConnectors(self._configuration.broker)
            await self._refusing.start()
        if self._on_waiting is not None:
            self._on_waiting(error)

    def _report_ready(self) -> None:
        log.info("serving at %s", ", ".join(f"{scheme}://{where}" for scheme, where in self.addresses))
        if self._on_ready is not None:
            self._on_ready(self.addresses)


def _identity(configuration: Configuration, address: Address) -> BrokerIdentity:
    broker, name, stores = configuration.broker, configuration.broker_name, len(configuration.stores)
    where = str(_reached(address))
    return BrokerIdentity(
        name=where if name == Configuration().broker_name else name,
        address=where,
        database=f"{stores} databases" if stores else mask_url(configuration.data_source.url or ""),
        environment=broker.environment or "",
        color=broker.environment_color,
    )


def _reached(address: Address) -> Address:
    """Return the address for other machines, or for this machine if others cannot reach it."""
    return address if address.host not in _EVERY else Address(socket.gethostname(), address.port)


def _url(scheme: str, address: Address) -> str:
    """Return the URL of an address for other machines."""
    return f"{scheme}://{_reached(address)}"
