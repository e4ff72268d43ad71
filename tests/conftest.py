"""The fixtures that every test may use. See tests/README.md for which to take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from sqlalchemy import Connection

import jdbcstore
from jdbcstore.abc import Store
from jdbcstore.clock import Clock
from tests.backends import BACKENDS, MEMORY, Backend, Capabilities
from tests.clock import FakeClock
from tests.databases import Database, SqliteDatabase
from tests.polling import wait_until
from tests.pool import ServerPool
from tests.require import required, unavailable
from tests.servers import Server, ServerMissing

ROOT = Path(__file__).parent.parent
NEEDS_DATABASE = {"connection", "database", "server", "url"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backends(*ids): run this test on these backends only")
    config.addinivalue_line("markers", "scale: a million rows; deselect with -m 'not scale'")
    config.addinivalue_line("markers", "new_database: not one that another conformance case had before")
    unknown = required() - {backend.id for backend in BACKENDS} - {"activemq"}
    if unknown:
        raise pytest.UsageError(f"JDBCSTORE_REQUIRE names no backend: {', '.join(sorted(unknown))}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what uses ``backend`` on each; in memory too, unless it looks into the database."""
    if "backend" not in metafunc.fixturenames:
        return
    backends = [*BACKENDS] if NEEDS_DATABASE & {*metafunc.fixturenames} else [MEMORY, *BACKENDS]
    for mark in metafunc.definition.iter_markers("backends"):
        backends = [backend for backend in backends if backend.id in mark.args]
    if "server" in metafunc.fixturenames:
        backends = [backend for backend in backends if backend.capabilities.server]
    metafunc.parametrize("backend", backends, ids=lambda backend: backend.id)


@pytest.fixture(scope="session")
def server_pool() -> Iterator[ServerPool]:
    pool = ServerPool()
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def docker_compose_file() -> str:
    return str(ROOT / "docker-compose.yml")


@pytest.fixture(scope="session")
def docker_setup(server_pool: ServerPool) -> list[str]:
    return [f"up --wait {' '.join(server_pool.services())}"]


@pytest.fixture
def capabilities(backend: Backend) -> Capabilities:
    """What the backend of this test can do."""
    return backend.capabilities


@pytest.fixture
def server(backend: Backend) -> Iterator[Server]:
    """A private server of this test's own, to stop, kill and start again."""
    if backend.not_yet or backend.missing_driver:
        unavailable(backend.id, backend.not_yet or backend.missing_driver or "")
    if backend.private is None:
        pytest.skip(f"{backend.id} has no private server")
    try:
        server = backend.private()
    except ServerMissing as missing:
        pytest.skip(f"{backend.id}: {missing}")
    yield server
    server.close()


@pytest.fixture
def database(
    backend: Backend, server_pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Database]:
    """A fresh, empty database of this test's own; on ``server`` if the test has one."""
    database = new_database(backend, server_pool, tmp_path, request)
    yield database
    database.close()


def new_database(
    backend: Backend, server_pool: ServerPool, directory: Path, request: pytest.FixtureRequest
) -> Database:
    """An empty database, for whoever asks to close."""
    if not backend.capabilities.server:
        return SqliteDatabase(directory)
    if "server" in request.fixturenames:
        return backend.database(backend.private_url(request.getfixturevalue("server")))
    address = server_pool.address(backend, lambda: request.getfixturevalue("docker_services"))
    return backend.database(address)


@pytest.fixture
def url(database: Database) -> str:
    """What a store on this test's database is opened with, password included."""
    return database.url


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """A second process's view of the database: each statement sees what is committed."""
    with database.engine.connect() as connection:
        yield connection


@pytest.fixture
def clock() -> FakeClock:
    """To be passed to ``open_store`` as ``clock``, and advanced."""
    return FakeClock()


class OpenStore(Protocol):
    def __call__(self, *, clock: Clock | None = None, **options: Any) -> Store: ...


@pytest.fixture
def open_store(backend: Backend, request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Opens stores on this test's database, with :class:`StoreConfig`'s options; each call one more.

    At the end all are closed, and no connection may be left.
    """
    database = None if backend is MEMORY else request.getfixturevalue("database")
    with ExitStack() as stores:

        def open_store(**options: Any) -> Store:
            store = jdbcstore.open("memory:" if database is None else database.url, **options)
            stores.callback(store.close)
            return store

        yield open_store
    if database is not None:
        wait_until(lambda: database.connections() == 0, 10.0, "that close() left no connection")


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    """An open store with default options: in memory and on every backend."""
    return open_store()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Each reason for skipping once, with its number of tests."""
    reasons = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} tests: {reason}")
