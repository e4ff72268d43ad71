"""Fixtures for clients of OpenWire."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jdbcstore import Store
from tests.support.broker.openwire import jms
from tests.support.broker.openwire.serving import Served
from tests.support.interop.activemq import PeerMissing
from tests.support.require import unavailable


@pytest.fixture
def served(store: Store) -> Iterator[Served]:
    """A broker that serves the store."""
    with Served(store) as served:
        yield served


@pytest.fixture
def broker_url(served: Served, java_client: None) -> str:  # noqa: ARG001
    """Its address, for the JMS client."""
    return served.url


@pytest.fixture(scope="session")
def java_client() -> None:
    """ActiveMQ's JMS client, without which the test is skipped."""
    try:
        jms.activemq("ActiveMQConnectionFactory")
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
