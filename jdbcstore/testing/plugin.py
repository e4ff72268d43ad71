"""A plugin of pytest: the fixtures and markers of the contract suite.

The author's ``conftest.py`` names it in ``pytest_plugins``, and defines the fixture ``provider``, which
returns a :class:`jdbcstore.testing.Provider`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from jdbcstore.abc import MessageStore, Store, TopicMessageStore
from jdbcstore.testing.clock import FakeClock
from jdbcstore.testing.provider import Capabilities, OpenStore, Provider
from jdbcstore.testing.tables import RawTables
from jdbcstore.util.clock import Clock

MARKERS = (
    "needs(*capabilities): the store must have these fields of jdbcstore.testing.Capabilities",
    "slow: takes seconds",
    "ours: does not depend on the database; in jdbcstore's own tests, in memory and on SQLite",
    "one_writer: needs one sequence and one commit for all destinations",
    "variants(*ids): in jdbcstore's own tests, run this case with these variants",
    "without(*ids, why): in jdbcstore's own tests, does not apply to these variants",
    "new_database: changes tables; in jdbcstore's own tests, do not reuse a database of another case",
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the cases."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock for ``open_store(clock=...)`` that the case advances."""
    return FakeClock()


@pytest.fixture
def capabilities(provider: Provider) -> Capabilities:
    """Return the capabilities of the store under test."""
    return provider.capabilities


@pytest.fixture
def database(provider: Provider) -> RawTables:
    """Return the tables of the store under test, for cases that look into them."""
    if provider.tables is None:
        pytest.skip("looks into the tables of a JdbcStore")
    return provider.tables


@pytest.fixture
def empty_database(provider: Provider) -> Callable[[], None]:
    """Return a function that empties the database under an open store."""
    if provider.empty is None:
        pytest.skip("empties the database under an open store")
    return provider.empty


@pytest.fixture
def examples(provider: Provider) -> int:
    """Return the number of sequences of random operations to try."""
    return provider.examples


@pytest.fixture
def open_store(provider: Provider, request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Return a function that opens a store on the database of this case; all are closed at the end."""
    has = provider.capabilities
    needed = [name for mark in request.node.iter_markers("needs") for name in mark.args]
    if request.node.get_closest_marker("one_writer"):
        needed.append("one_writer")
    if missing := [name for name in needed if not getattr(has, name)]:
        pytest.skip(f"the store does not have: {', '.join(missing)}")
    with ExitStack() as stores:

        def open_store(*, clock: Clock | None = None, **options: Any) -> Store:
            if has.options is not None and (unknown := {*options} - has.options):
                pytest.skip(f"the store does not have the option {', '.join(sorted(unknown))}")
            if has.options is None or "cleanup_period" in has.options:
                options.setdefault("cleanup_period", 0)
            store = provider.open(clock=clock, **options)
            stores.callback(store.close)
            return store

        yield open_store


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    """Return an open store with default options."""
    return open_store()


@pytest.fixture
def queue(store: Store) -> MessageStore:
    """Return the queue of most cases."""
    return store.queue("ORDERS")


@pytest.fixture
def topic(store: Store) -> TopicMessageStore:
    """Return the topic of most cases."""
    return store.topic("PRICES")
