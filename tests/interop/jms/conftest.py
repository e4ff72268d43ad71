"""A broker for all behaviours, and connections of ActiveMQ's JMS client to it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pytest

from tests.support.broker.openwire import jms
from tests.support.broker.openwire.jms import AUTO, Jms
from tests.support.broker.stomp.serving import Client
from tests.support.interop.activemq import PeerMissing
from tests.support.interop.behaviours.brokers import BROKERS
from tests.support.require import unavailable

_T = TypeVar("_T")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class RunningBroker:
    name: str
    url: str
    stomp_port: int
    store_url: str

    def either(self, *, activemq: _T, ours: _T) -> _T:
        """Where the two differ, which docs/guide/jms.md tells."""
        return ours if self.name == "jdbcstore" else activemq


class Connect(Protocol):
    def __call__(self, mode: int | None = AUTO, **options: Any) -> Jms: ...


@pytest.fixture(scope="package", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Iterator[RunningBroker]:
    try:
        jms.activemq("ActiveMQConnectionFactory")
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    with BROKERS[request.param](request, advisories=True) as addresses:
        yield RunningBroker(request.param, addresses.openwire_url, addresses.stomp_port, addresses.store_url)


@pytest.fixture
def connect(broker: RunningBroker) -> Iterator[Connect]:
    """Opens connections, with the arguments of :class:`Jms`; all are closed at the end."""
    with ExitStack() as connections:

        def connect(mode: int | None = AUTO, **options: Any) -> Jms:
            return connections.enter_context(Jms(broker.url, mode, **options))

        yield connect


@pytest.fixture
def client(connect: Connect) -> Jms:
    """A connection whose session acknowledges by itself."""
    return connect()


@pytest.fixture
def stomp(broker: RunningBroker) -> Iterator[Client]:
    """A connection of a STOMP client."""
    with Client(broker.stomp_port) as client:
        yield client


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Of a destination, a client or a subscription that no other test has."""
    return re.sub(r"\W+", "-", request.node.originalname) + f"-{next(_numbers)}"


@pytest.fixture
def queue(name: str) -> str:
    return name


@pytest.fixture
def topic(name: str) -> str:
    return f"topic://{name}"
