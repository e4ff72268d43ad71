"""A broker with a STOMP connector in a thread of its own, and a client that says what it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from jdbcstore import Store
from jdbcstore.broker.engine import Engine
from jdbcstore.broker.policies import Policies
from jdbcstore.broker.process.protocols import make_connector
from jdbcstore.broker.security import AllowAll, Security
from jdbcstore.broker.stomp.frames import Version
from jdbcstore.broker.transport.connector import Connector
from jdbcstore.broker.transport.service import Service
from jdbcstore.broker.turns import TurnLoop
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.policy import PolicyEntry
from jdbcstore.errors import StoreError
from tests.support.stomp import Frame, Wire

PATIENCE = 180.0
"""Seconds that something may take which is bound to come."""

_Result = TypeVar("_Result")


class Served:
    """A broker that serves; its loop runs in a thread, for clients that wait."""

    def __init__(
        self,
        store: Store,
        *policies: PolicyEntry,
        security: Security | None = None,
        on_store_error: Callable[[StoreError], None] | None = None,
        populate_user_id: bool = False,
        loop: TurnLoop | None = None,
        **config: Any,
    ) -> None:
        self._store = store
        self._policies = policies
        self._security = security or AllowAll()
        self._on_store_error = on_store_error
        self._populate_user_id = populate_user_id
        self._config = ConnectorConfig(**{"uri": "stomp://127.0.0.1:0", **config})
        self._loop = loop or TurnLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self.engine: Engine
        self.service: Service
        self.connector: Connector

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    @property
    def port(self) -> int:
        return self.connector.address.port

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Run something on the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def call(self, what: Callable[[], _Result]) -> _Result:
        async def called() -> _Result:
            return what()

        return self.run(called())

    async def _start(self) -> None:
        self.engine = Engine(self._store, Policies(self._policies))
        await self.engine.start()
        more: dict[str, Any] = {"config": BrokerConfig(populate_jmsx_user_id=self._populate_user_id)}
        if self._on_store_error is not None:
            more["on_store_error"] = self._on_store_error
        self.service = Service(self.engine, self._security, **more)
        self.connector = make_connector(self.service, self._config)
        await self.connector.start()

    async def _stop(self) -> None:
        await self.connector.stop(5)
        await self.engine.stop()


class Client(Wire):
    """A session of a test; names of headers have ``_`` for ``-``."""

    def __init__(self, port: int, version: Version | None = Version.V1_2, **headers: str) -> None:
        super().__init__(port, (version or Version.V1_2).value, patience=PATIENCE)
        if version is not None:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            self.connected = self.connect(named)
            assert self.connected.command == "CONNECTED", self.connected

    def request(self, command: str, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Write a frame and wait for its receipt, which is the next frame."""
        self.write(command, {**(headers or {}), "receipt": "done"}, body)
        assert self.expect("RECEIPT").headers["receipt-id"] == "done"

    def send(self, destination: str, body: str | bytes, **headers: str) -> None:
        content = {"content-length": str(len(body))} if isinstance(body, bytes) else {}
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request(
            "SEND",
            {"destination": destination, "persistent": "true", **content, **more},
            body if isinstance(body, bytes) else body.encode(),
        )

    def subscribe(self, destination: str, subscription_id: str = "0", **headers: str) -> None:
        more = {name.replace("__", ".").replace("_", "-"): value for name, value in headers.items()}
        self.request("SUBSCRIBE", {"id": subscription_id, "destination": destination, **more})

    def expect(self, command: str) -> Frame:
        frame = self.read()
        assert frame.command == command, f"{frame.command} {frame.headers} {frame.body[:200]!r}"
        return frame

    def messages(self, count: int) -> list[Frame]:
        return [self.expect("MESSAGE") for _ in range(count)]

    def rest(self) -> Iterator[Frame]:
        """Read until the broker closes the connection."""
        with contextlib.suppress(ConnectionError):
            while True:
                yield self.read()

    def ends(self) -> bool:
        """Whether the broker has closed the connection; waits for it."""
        return next(self.rest(), None) is None

    def has_nothing_more(self) -> bool:
        """Whether nothing comes before the answer to something else."""
        self.write("BEGIN", {"transaction": "any", "receipt": "nothing"})
        frame = self.expect("RECEIPT")
        self.write("ABORT", {"transaction": "any"})
        return frame.headers["receipt-id"] == "nothing"


@contextlib.contextmanager
def talking(store: Store, **options: Any) -> Iterator[tuple[Served, Client]]:
    """A broker and one client."""
    with Served(store, **options) as served, Client(served.port) as client:
        yield served, client
