"""A broker for all behaviours, and sessions with it through each library."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pytest

from tests.support.interop.activemq import VERSION
from tests.support.interop.behaviours.brokers import BROKERS, websocket
from tests.support.interop.behaviours.clients import LIBRARIES
from tests.support.interop.behaviours.conversation import Conversation
from tests.support.interop.differences import ARTEMIS
from tests.support.stomp import Wire

_T = TypeVar("_T")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class RunningBroker:
    name: str
    port: int

    def either(self, *, activemq: _T, ours: _T) -> _T:
        """Where the two differ, of which docs/stomp-differences.md has the important ones."""
        return ours if self.name == "jdbcstore" else activemq


class Connect(Protocol):
    def __call__(self, version: str = "1.2", headers: Mapping[str, str] | None = None) -> Conversation: ...


class OpenWire(Protocol):
    def __call__(self, version: str = "1.2", *, connected: bool = True) -> Wire: ...


WEBSOCKET = "jdbcstore-websocket"
ASKED = ("activemq",) if VERSION else (*BROKERS, WEBSOCKET)
"""The brokers to run: ours does not depend on the version of ActiveMQ, and runs beside one of them only."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Over WebSocket and with Artemis one library is enough, and over WebSocket a message ends by itself."""
    removed = [item for item in items if _is_left_out(item)]
    items[:] = [item for item in items if not _is_left_out(item)]
    config.hook.pytest_deselected(items=removed)


def _is_left_out(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    parameters = {} if callspec is None else callspec.params
    broker = parameters.get("broker")
    if broker not in (ARTEMIS, WEBSOCKET):
        return False
    with_a_library: bool = parameters.get("connect", "socket") != "socket"
    return with_a_library or (broker == WEBSOCKET and "ends_with_a_line" in item.name)


@pytest.fixture(scope="package", params=ASKED)
def broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    if request.param == WEBSOCKET:
        with websocket(request) as addresses:
            yield RunningBroker("jdbcstore", addresses.stomp_port)
        return
    with BROKERS[request.param](request) as addresses:
        yield RunningBroker(request.param, addresses.stomp_port)


@pytest.fixture(params=LIBRARIES)
def connect(request: pytest.FixtureRequest, broker: RunningBroker) -> Iterator[Connect]:
    """Begins sessions, through one library after the other."""
    with ExitStack() as clients:

        def connect(version: str = "1.2", headers: Mapping[str, str] | None = None) -> Conversation:
            client = LIBRARIES[request.param](broker.port, version)
            clients.callback(client.drop)
            return Conversation(client, client.connect(headers or {}))

        yield connect


@pytest.fixture
def wire(broker: RunningBroker) -> Iterator[OpenWire]:
    """Opens sockets, for what no library sends."""
    with ExitStack() as sockets:

        def open_wire(version: str = "1.2", *, connected: bool = True) -> Wire:
            wire = sockets.enter_context(Wire(broker.port, version))
            if connected:
                assert wire.connect().command == "CONNECTED"
            return wire

        yield open_wire


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a destination, a client or a subscription that no other test has."""
    return re.sub(r"\W+", "-", request.node.originalname) + f"-{next(_numbers)}"


@pytest.fixture
def queue(name: str) -> str:
    return f"/queue/{name}"


@pytest.fixture
def topic(name: str) -> str:
    return f"/topic/{name}"
