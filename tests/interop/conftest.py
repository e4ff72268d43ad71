"""Fixtures for tests beside the real ActiveMQ. The two brokers take turns on this test's database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.databases import Database
from tests.support.interop.activemq import NUMBER, VERSION, Broker, Peer, PeerMissing
from tests.support.interop.differences import mark, on_artemis
from tests.support.interop.older import why_not
from tests.support.maven import connector_missing
from tests.support.require import unavailable

if TYPE_CHECKING:
    from jdbcstore.abc import Store

StartBroker = Callable[..., Broker]
OpenStore = Callable[..., "Store"]

ACKS_PRIMARY_KEY = "pk_activemq_acks"
"""Told so, ActiveMQ makes prioritised durable subscriptions possible on PostgreSQL too."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave Artemis out when another ActiveMQ is tested, and mark what other brokers do differently."""
    if VERSION:
        config.hook.pytest_deselected(items=[item for item in items if on_artemis(item)])
        items[:] = [item for item in items if not on_artemis(item)]
    for item in items:
        mark(item)
        if (reason := why_not(item.nodeid, NUMBER)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    """The JVM of this session, compiled and started once."""
    try:
        peer = Peer()
    except PeerMissing as missing:
        unavailable("activemq", str(missing))
    with peer:
        yield peer


@pytest.fixture
def activemq(peer: Peer, database: Database) -> StartBroker:
    """Starts the real broker: ``with activemq() as broker``."""

    if database.jdbc_scheme == "mysql" and (missing := connector_missing()):
        unavailable("activemq", missing)

    def start(**options: Any) -> Broker:
        return peer.broker(database.jdbc_url, database.username or "", database.password or "", **options)

    return start


@pytest.fixture
def open_jdbcstore(database: Database) -> OpenStore:
    """Opens jdbcstore: ``with open_jdbcstore() as store``. It cleans up only when told to."""
    import jdbcstore

    def open_jdbcstore(**options: Any) -> Store:
        return jdbcstore.open(database.url, cleanup_period=0.0, **options)

    return open_jdbcstore
