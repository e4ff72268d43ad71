"""Fixtures for tests beside the real ActiveMQ. The two brokers take turns on this test's database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.backends import Backend
from tests.support.databases import Database
from tests.support.interop.activemq import IS_SIX, NUMBER, VERSION, Broker, Peer, PeerMissing
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
DATABASE = "postgresql" if IS_SIX else "mariadb"
"""That on which another ActiveMQ runs: of the two versions that the Makefile names, each has another."""
OF_DATABASES = {"test_schema"}
"""Modules in which the database and the version decide together."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not depend on the version if another ActiveMQ is tested; mark known differences.

    That is Artemis, and without ``--whole`` all databases but one for each case, unless ``--backends`` names
    some, and all libraries of STOMP but the socket.
    """
    if VERSION:
        removed = {item for item in items if on_artemis(item)}
        if not (config.getoption("--backends") or config.getoption("--whole")):
            removed |= _repeated(items)
        config.hook.pytest_deselected(items=[*removed])
        items[:] = [item for item in items if item not in removed]
    for item in items:
        mark(item)
        if (reason := why_not(item.nodeid, NUMBER)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _repeated(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the cases that ask the same ActiveMQ again, on one more database or through one more library."""
    several: dict[object, dict[str, pytest.Item]] = {}
    repeated = set()
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or "interop" not in item.path.parts:
            continue
        if callspec.params.get("connect", "socket") != "socket" and item.path.parent.name == "behaviours":
            repeated.add(item)
        backend = callspec.params.get("backend")
        if isinstance(backend, Backend) and item.path.stem not in OF_DATABASES:
            case = item.path, item.name.partition("[")[0], callspec.id.replace(backend.label, "", 1)
            several.setdefault(case, {})[backend.id] = item
    for databases in several.values():
        kept = DATABASE if DATABASE in databases else next(iter(databases))
        repeated |= {item for name, item in databases.items() if name != kept}
    return repeated


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
