"""Fixtures of the contract suite: databases are reused, and background work is off."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect

from jdbcstore import Clock, Store
from jdbcstore.database import schema_lock
from jdbcstore.testing import OpenStore
from tests.conftest import new_database
from tests.support.backends import BACKENDS, Backend
from tests.support.databases import Database
from tests.support.pool import ServerPool
from tests.support.variants import PLAIN, WHOLE

TABLES = (
    "ACTIVEMQ_MSGS",
    "ACTIVEMQ_ACKS",
    "ACTIVEMQ_LOCK",
    "JDBCSTORE_ACKS",
    "JDBCSTORE_STATE",
    "JDBCSTORE_VERSION",
)

EXAMPLES = {"sqlite": 60, "postgresql": 10}
FEW_EXAMPLES = 3
"""Where it takes longer, and would find little that it does not find on those."""

FEW = [backend.id for backend in BACKENDS if backend.contract_only]
SHARING = (
    *FEW,
    *("mariadb-pyodbc", "postgresql-statements", "postgresql-lock-free"),
    *("mysql-journaled", "mariadb-journaled", "mariadb-pyodbc-journaled"),
)
"""What runs a share of the cases in each run, a different one than its neighbours: another driver, or another
spelling, of what others run all cases on. ``--backends`` with its name, and ``--whole``, run all."""
SHARES = 3
OF_ALL = {"test_large"}
"""Modules that all run, for each case has statements of its own. What is left out of the others has none: all
statements of a store on H2, HSQLDB and Derby are run there."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run one of a case's parameters on each contract-only backend and variant, a different one on each.

    Those of :data:`SHARING` run only their share of the cases, if nothing names them.
    """
    named = (config.getoption("--backends") or "").split(",")
    whole = config.getoption("--whole")
    cases: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    spared: set[pytest.Item] = set()
    for item in items:
        backend = _backend_of(item)
        if backend is None or _is_whole(backend):
            continue
        case = item.nodeid.partition("[")[0]
        if not (whole or backend.label in named or _has_share(item, case, backend)):
            spared.add(item)
        elif backend.contract_only or backend.variant is not PLAIN:
            cases[case, backend.label].append(item)
    for (_, label), several in cases.items():
        chosen = several[FEW.index(label) % len(several) if label in FEW else 0]
        spared.update(one for one in several if one is not chosen)
    if spared:
        config.hook.pytest_deselected(items=[*spared])
        items[:] = [item for item in items if item not in spared]


def _has_share(item: pytest.Item, case: str, backend: Backend) -> bool:
    """Return whether a backend runs this case: all do that do not share, and those that the case names."""
    if (
        backend.label not in SHARING
        or item.path.stem in OF_ALL
        or item.get_closest_marker("backends")
        or item.get_closest_marker("variants")
    ):
        return True
    return (zlib.crc32(case.encode()) + SHARING.index(backend.label)) % SHARES == 0


def _is_whole(backend: Backend) -> bool:
    return WHOLE and not backend.variant.plain and not backend.contract_only


def _backend_of(item: pytest.Item) -> Backend | None:
    """The backend of a contract case."""
    if item.path.parent.name != "contract" or not hasattr(item, "callspec"):
        return None
    found = item.callspec.params.get("backend")
    return found if isinstance(found, Backend) else None  # NOTSET where --backends leaves none


@pytest.fixture
def open_store(open_store: OpenStore) -> OpenStore:
    """As everywhere, but without cleanup in the background unless a case says otherwise."""

    def open_quietly(*, clock: Clock | None = None, cleanup_period: float = 0, **options: Any) -> Store:
        return open_store(clock=clock, cleanup_period=cleanup_period, **options)

    return open_quietly


@pytest.fixture(scope="session")
def used_databases() -> Iterator[dict[str, Database]]:
    """By backend: a database with the tables in it, emptied."""
    databases: dict[str, Database] = {}
    yield databases
    for database in databases.values():
        database.close()


@pytest.fixture
def database(
    backend: Backend,
    server_pool: ServerPool,
    used_databases: dict[str, Database],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Database]:
    """An empty database. On a server it is the last case's, emptied: making one takes a third of a second."""
    reusable = backend.capabilities.server and not (
        "server" in request.fixturenames or request.node.get_closest_marker("new_database")
    )
    database = used_databases.pop(backend.label, None) if reusable else None
    if database is None:
        database = new_database(backend, server_pool, tmp_path, request, pooled=reusable)
    yield database
    if reusable and _has_been_emptied(database):
        used_databases[backend.label] = database
    else:
        database.close()


def _has_been_emptied(database: Database) -> bool:
    """Whether it has our tables and nothing else; they have only the rows of the beginning then."""
    with database.engine.connect() as connection:
        found = {name.upper() for name in inspect(connection).get_table_names()} - {schema_lock.NAME}
    if found != {*map(database.spell, TABLES)}:
        return False
    database.empty()
    return True


@pytest.fixture
def empty_database(database: Database) -> Callable[[], None]:
    """Leaves only the rows of new tables, as :meth:`jdbcstore.testing.RawTables.empty` does."""
    return database.empty


@pytest.fixture
def examples(backend: Backend) -> int:
    """As many sequences of random operations as a backend has time for."""
    return EXAMPLES.get(backend.label, FEW_EXAMPLES)
