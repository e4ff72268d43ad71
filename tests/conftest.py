"""Fixtures of every test; tests/README.md says which to use."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Connection

import jdbcstore
from jdbcstore.abc import Store
from jdbcstore.config import StoreConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import StoreClosed
from jdbcstore.message.destination import Destination
from jdbcstore.stores.filtered import FilteredStore, Route
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.stores.memory import MemoryStore
from jdbcstore.stores.shared.checkpoint import CheckpointedStore
from jdbcstore.testing.provider import OpenStore
from jdbcstore.util.clock import Clock
from tests.support import ROOT, tiers
from tests.support.backends import BACKENDS, FILTERED, MEMORY, VARIED, Backend, Capabilities
from tests.support.constants import Constants
from tests.support.databases import Database, SqliteDatabase
from tests.support.pool import ServerPool, memory
from tests.support.require import PARTS, required, unavailable
from tests.support.servers import Server, ServerMissing
from tests.support.streams import NatsServer
from tests.support.variants import CHOICE, CHOICES, FILTERED_TOPICS, JOURNALED, WHOLE

# No deadline: the machine may be busy. The suite tries the same examples each time;
# ``--hypothesis-profile=exploring`` tries others.
settings.register_profile("exploring", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("exploring"), derandomize=True)
settings.load_profile("steady")

NO_CERTIFICATES = {"SSL_CERT_FILE": os.devnull}
"""Spares pymysql reading the machine's certificates for each connection: slower than connecting."""
SHARING = {"analytics", "interop", "plans", "scale"}
"""Folders whose tests share expensive fixtures in a package or a module."""
LONG_ANALYTICS = {
    "test_archive_kill",
    "test_command",
    "test_data_source",
    "test_guide",
    "test_spark_kill",
    "test_stream",
}
"""Modules that take longer than the others of ``analytics``: two processes share these tests."""
QUIET = {"jdbcstore.broker.stomp.websocket.frames"}
"""Loggers of the product with a level of their own."""
NEED_SESSIONS = {"claims", "lockers", "plugins"}
"""Folders whose cases need sessions, which a pooler in transaction mode does not keep."""
LACKS = {
    "sessions": "needs a session of its own",
    "row_locks": "the nodes share no row locks",
}
"""What clusters and poolers lack, by the capability that a case ``needs``."""
NEEDS_DATABASE = {"connection", "database", "server", "url"}

ALIKE = {"mariadb", "mariadb-pyodbc", "mysql"}
"""Backends with the same adapter, but for a few statements."""
OF_ONE_ALIKE = {
    "analytics",
    "broker",
    "cli",
    "faults",
    "interop",
    "lockers",
    "long",
    "plugins",
    "stores",
    "tools",
}
"""Folders whose cases run on one of them, each on another. The rest, as the contract, runs on all."""

pytest_plugins = ["jdbcstore.testing.plugin"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backends", help="run tests that use a database only on these, as in --backends memory,sqlite"
    )
    parser.addoption(
        "--whole",
        action="store_true",
        help="run also what asks the same again: on one more database, by one more driver or version",
    )


def pytest_configure() -> None:
    os.environ.update(NO_CERTIFICATES)
    # Else the threads of a process keep memory of their own: a quarter of a gigabyte in each of a run.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    # Else each Python that a test starts compiles the package again, and each run all of these modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    with suppress(ImportError):
        # The tests connect before a store sets this, and then it has no effect.
        driver: Any = importlib.import_module("pyodbc")
        driver.pooling = False
    os.environ.pop("COLUMNS", None)  # set by pytest-xdist; tables in a pipe would have that width
    if unknown := required() - {backend.id for backend in BACKENDS} - PARTS:
        names = ", ".join(sorted(unknown))
        raise pytest.UsageError(f"JDBCSTORE_REQUIRE names nothing that can be missing: {names}")
    if CHOICE and CHOICE not in CHOICES:
        raise pytest.UsageError(f"JDBCSTORE_TEST_VARIANTS is {CHOICE!r}, and may only be one of {CHOICES}")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import a share of the test modules first in each of several processes.

    Rewriting the assertions of all modules takes twenty seconds of a processor, and each process would do all
    of it, where there are no compiled modules yet; so they find most of it done when they get there.
    """
    share = getattr(session.config, "workerinput", None)
    if share is None:
        return
    folders = [folder for name in session.config.args if (folder := ROOT / name).is_dir()]
    modules = sorted(
        {module for folder in folders for module in folder.rglob("test_*.py")},
        key=lambda module: (-module.stat().st_size, module),
    )
    for module in modules[int(share["workerid"].removeprefix("gw")) :: share["workercount"]]:
        # What cannot be imported here is reported, or skipped, when it is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(module.relative_to(ROOT).with_suffix("").parts))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that use ``backend`` on each; also in memory, unless they read the database."""
    if "backend" not in metafunc.fixturenames:
        return
    backends = [*BACKENDS] if _needs_database(metafunc) else [MEMORY, FILTERED, *BACKENDS]
    if metafunc.module.__package__ == "tests.contract" and "server" not in metafunc.fixturenames:
        backends += _varied(metafunc)
    if metafunc.definition.get_closest_marker("one_writer"):
        backends = [one for one in backends if one.capabilities.one_writer or _is_whole(one)]
    if metafunc.definition.get_closest_marker("ours"):
        backends = [one for one in backends if not one.scheme or one.label == "sqlite" or _is_whole(one)]
    if wanted := metafunc.definition.get_closest_marker("backends"):
        backends = [backend for backend in backends if {backend.id, backend.like} & {*wanted.args}]
    elif "contract" not in metafunc.definition.path.parts:
        backends = [backend for backend in backends if not backend.contract_only]
    if "server" in metafunc.fixturenames:
        backends = [backend for backend in backends if backend.capabilities.server]
    if chosen := metafunc.config.getoption("--backends"):
        backends = [backend for backend in backends if backend.label in chosen.split(",")]
    else:
        backends = [backend for backend in backends if not backend.on_request]
    if (
        not chosen
        and OF_ONE_ALIKE & {*metafunc.definition.path.parts}
        and not metafunc.config.getoption("--whole")
    ):
        backends = _one_alike(metafunc.definition.nodeid, backends)
    values = [
        pytest.param(backend, marks=pytest.mark.skip(why))
        if (why := _skipped(metafunc, backend))
        else backend
        for backend in backends
    ]
    metafunc.parametrize("backend", values, ids=lambda backend: backend.label)


def _one_alike(case: str, backends: list[Backend]) -> list[Backend]:
    """Leave one of the backends that are alike, which depends on the case; all if it is for them alone."""
    alike = [backend for backend in backends if backend.id in ALIKE]
    if len(alike) < 2 or len(alike) == len(backends):
        return backends
    chosen = alike[zlib.crc32(case.encode()) % len(alike)]
    return [backend for backend in backends if backend is chosen or backend not in alike]


def _needs_database(metafunc: pytest.Metafunc) -> bool:
    """Return whether a case uses the database itself, or what is stored must survive a restart."""
    durable = any("durable" in mark.args for mark in metafunc.definition.iter_markers("needs"))
    return durable or not NEEDS_DATABASE.isdisjoint(metafunc.fixturenames)


def _skipped(metafunc: pytest.Metafunc, backend: Backend) -> str | None:
    """The reason for a visible skip of this case on this backend."""
    definition = metafunc.definition
    if definition.get_closest_marker("slow") and backend.contract_only:
        return f"{backend.id}: too slow for a backend that only runs the contract"
    if not _is_whole(backend):
        return None
    if definition.get_closest_marker("one_writer") and not backend.capabilities.one_writer:
        return f"{backend.variant.id}: needs one sequence and one commit for all destinations"
    for mark in definition.iter_markers("without"):
        if backend.variant.id in mark.args or (backend.variant.journaled and JOURNALED.id in mark.args):
            return f"{backend.variant.id}: {mark.kwargs['why']}"
    return None


def _lacking(item: pytest.Item, backends: list[Backend]) -> Iterator[pytest.MarkDecorator]:
    """A visible skip for each capability that this case needs and its backend does not have."""
    needs = {name for mark in item.iter_markers("needs") for name in mark.args}
    if not NEED_SESSIONS.isdisjoint(item.path.parts):
        needs.add("sessions")
    for backend in backends:
        for name in sorted(needs & {*LACKS}):
            if not getattr(backend.capabilities, name):
                yield pytest.mark.skip(f"{backend.id}: {LACKS[name]}")


def _is_whole(backend: Backend) -> bool:
    """Whether every case runs with this variant, as requested by :data:`WHOLE`."""
    return WHOLE and not backend.variant.plain


def _varied(metafunc: pytest.Metafunc) -> list[Backend]:
    """The variants that a case runs with: those it names, or those of its module."""
    in_tables = _needs_database(metafunc)
    if WHOLE and "open_store" in metafunc.fixturenames:
        # In memory there are no tables to read.
        variants = [one for one in VARIED if one.scheme or not in_tables]
        without = [id_ for mark in metafunc.definition.iter_markers("without") for id_ in mark.args]
        if "filtered" not in without or FILTERED_TOPICS.id in without:
            variants = [one for one in variants if one.variant is not FILTERED_TOPICS]
        return variants
    wanted = metafunc.definition.get_closest_marker("variants")
    if wanted:
        return [one for one in VARIED if {one.variant.id, one.label} & {*wanted.args}]
    module = metafunc.module.__name__.rpartition("test_")[2]
    return [
        one for one in VARIED
        if module in one.variant.modules
        and (one.variant.plain or not in_tables)
    ]  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what tests start; keep those that share a broker or expensive servers in one worker process.

    Runs before pytest-xdist, which reads the groups in the same hook, and before ``-m`` chooses. Leaves out
    what is marked ``whole``, unless that is wanted.
    """
    if not config.getoption("--whole") and (left_out := {item for item in items if _only_of_the_whole(item)}):
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        backends = [value for value in values if isinstance(value, Backend)]
        markers: list[str | pytest.MarkDecorator] = [*tiers.tiers(item, backends), *_lacking(item, backends)]
        for marker in markers:
            item.add_marker(marker)
        if SHARING & {*item.path.parts} and isinstance(item, pytest.Function):
            group = item.path.parent.name
            if "analytics" in item.path.parts:
                group, ids = "analytics", []  # one session serves every backend
                if "spark" not in item.fixturenames:
                    ids = [item.path.stem]  # it starts a Spark of its own, or none
                elif item.path.stem in LONG_ANALYTICS:
                    ids = ["long"]
            else:
                ids = [backend.id for backend in backends]
            item.add_marker(pytest.mark.xdist_group("-".join([group, *ids])))
        elif any(backend.contract_only for backend in backends):
            # Few cases: one process starts Java and those servers.
            item.add_marker(pytest.mark.xdist_group("contract-only"))
    if items and getattr(items[0].config.option, "loadgroup", False):
        _spread(items)


def _only_of_the_whole(item: pytest.Item) -> bool:
    """Return whether a test is marked ``whole``, for its backend if the mark names some."""
    backend = (
        item.callspec.params.get("backend")
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else None
    )
    named = [mark.args for mark in item.iter_markers("whole")]
    return any(not ids or (isinstance(backend, Backend) and backend.id in ids) for ids in named)


def _spread(items: list[pytest.Item]) -> None:
    """Arrange tests without a group for several processes: a group is one test, and is run in this order."""
    free = [item for item in items if not item.get_closest_marker("xdist_group")]
    slow = {item for item in free if item.get_closest_marker("slow")}
    for item in free:
        if "unit" in item.path.parts and item not in slow:
            # They take milliseconds. The work of pytest-xdist itself grows with the square of the groups.
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item not in slow)  # one that takes a minute must not be the last


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Let the fixtures of a session end after any test; fail one that leaves the log silent for others."""
    tiers.runs(None)
    yield
    loggers = {
        name: logger
        for name, logger in logging.root.manager.loggerDict.items()
        if name.startswith("jdbcstore") and isinstance(logger, logging.Logger)
    }
    silent = [
        name
        for name, logger in loggers.items()
        if logger.disabled or not logger.propagate or (logger.level != logging.NOTSET and name not in QUIET)
    ]
    if silent or logging.root.manager.disable:
        logging.disable(logging.NOTSET)
        for name in silent:
            loggers[name].disabled, loggers[name].propagate = False, True
            loggers[name].setLevel(logging.NOTSET)
        pytest.fail(f"{item.nodeid} leaves the log silent: {silent or 'all of it'}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test start only what its markers name."""
    tiers.runs(item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail if this pytest-xdist does not recognise groups with this pytest, which it would not report."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(f"pytest-xdist does not see the group of {item.nodeid}")
    # The collected tests live to the end: frozen, they are not traversed by each garbage collection,
    # of which opening a store triggers several.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True, scope="module")
def _constants(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail after a module whose tests have changed its constants: in another order, others would fail."""
    constants = Constants(request.module)
    yield
    assert not (changed := constants.changed()), f"tests of {request.module.__name__} change {changed}"


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
    for name in NO_CERTIFICATES:
        del os.environ[name]  # images are pulled over TLS
    return [f"up --wait {' '.join(server_pool.services())}"]


@pytest.fixture
def capabilities(backend: Backend) -> Capabilities:
    """What the backend of this test supports."""
    return backend.capabilities


@pytest.fixture
def server(backend: Backend) -> Iterator[Server]:
    """A private server for this test alone, to stop, kill and restart."""
    if backend.missing_driver:
        unavailable(backend.id, backend.missing_driver)
    if backend.private is None:
        pytest.skip(f"{backend.id} has no private server")
    try:
        server = backend.private(memory())
    except ServerMissing as missing:
        pytest.skip(f"{backend.id}: {missing}")
    yield server
    server.close()


@pytest.fixture
def database(
    backend: Backend, server_pool: ServerPool, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Database]:
    """A new, empty database for this test alone; on ``server`` if the test uses that fixture."""
    database = new_database(backend, server_pool, tmp_path, request)
    yield database
    database.close()


def new_database(
    backend: Backend,
    server_pool: ServerPool,
    directory: Path,
    request: pytest.FixtureRequest,
    *,
    pooled: bool = False,
) -> Database:
    """An empty database, which the caller closes."""
    if not backend.capabilities.server:
        database: Database = SqliteDatabase(directory, memory())
    elif "server" in request.fixturenames:
        database = backend.database(backend.private_url(request.getfixturevalue("server")))
    else:
        address = server_pool.address(backend, lambda: request.getfixturevalue("docker_services"))
        database = backend.database(address, pooled=pooled)
    database.spell = backend.variant.spell
    return database


@pytest.fixture
def url(database: Database) -> str:
    """The URL of this test's database, with its password."""
    return database.url


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """A connection of its own, as a second process would have: each statement sees what is committed."""
    with database.engine.connect() as connection:
        yield connection


@pytest.fixture(scope="session")
def nats() -> Iterator[NatsServer]:
    """A server of NATS JetStream that no test stops."""
    with NatsServer() as server:
        yield server


@pytest.fixture
def open_store(backend: Backend, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OpenStore]:
    """Opens a store on this test's database at each call, with options of :class:`StoreConfig`.

    All are closed at the end, and then no connection may be left.
    """
    database: Database | None = request.getfixturevalue("database") if backend.scheme else None
    with ExitStack() as stores:

        def open_store(**options: Any) -> Store:
            given = {**backend.variant.options, **options}
            if backend is FILTERED:
                store: Store = _filtered(**given)
            elif backend.variant.filtered and database is not None:
                topics = "OTHER.>" if backend.variant is FILTERED_TOPICS else ">"
                store = _mixed(database, tmp_path / "journal", topics, **given)
            elif backend.variant.journaled:
                journal = {**backend.variant.journal}
                if backend.variant.streamed:
                    journal |= {
                        "stream": request.getfixturevalue("nats").url,
                        "stream_name": _stream(tmp_path),
                    }
                store = journaled = _journaled(database, tmp_path / "journal", journal=journal, **given)
                if database is not None:
                    database.settle = partial(_checkpoint, journaled)
            else:
                store = jdbcstore.open("memory:" if database is None else database.url, **given)
            stores.callback(store.close)
            return store

        yield open_store
    if database is not None:
        database.expect_closed()


def _stream(folder: Path) -> str:
    """The name of a stream for the journal of this test."""
    return "-".join("".join(one if one.isalnum() else "-" for one in part) for part in folder.parts[-2:])


def _checkpoint(store: JournaledStore) -> None:
    with suppress(StoreClosed):
        store.checkpoint()


SMALL_JOURNAL: dict[str, Any] = {
    "journal_log_files": 1,
    "journal_log_file_size": 1 << 18,
    "journal_disk_sync_strategy": "never",
}


def small_journal(directory: Path, **options: Any) -> JournalConfig:
    """A journal in small, unsynced files: it survives a kill of the process, not of the machine."""
    return JournalConfig(directory=str(directory), **{**SMALL_JOURNAL, **options})


def _journaled(
    database: Database | None,
    directory: Path,
    clock: Clock | None = None,
    journal: Mapping[str, Any] | None = None,
    **options: Any,
) -> JournaledStore:
    config = StoreConfig().replace(**options)
    with ExitStack() as unless_opened:
        store: CheckpointedStore = (
            MemoryStore(config, clock=clock)
            if database is None
            else JdbcStore(database.url, config, clock=clock, journaled=True)
        )
        unless_opened.callback(store.close)
        journaled = JournaledStore(store, small_journal(directory, **(journal or {})), clock=clock)
        unless_opened.pop_all()
        return journaled


def _mixed(
    database: Database, directory: Path, journaled: str, clock: Clock | None = None, **options: Any
) -> Store:
    config = StoreConfig().replace(**options)
    with ExitStack() as unless_opened:
        topics = _journaled(None, directory, clock, **options)
        unless_opened.callback(topics.close)
        routes = [
            Route(store=topics, destination=Destination.topic(journaled)),
            Route(store=MemoryStore(config, clock=clock), destination=Destination.queue("OTHER.>")),
            Route(store=JdbcStore(database.url, config, clock=clock)),
        ]
        filtered = FilteredStore(routes, clock=clock)
        unless_opened.pop_all()
        return filtered


def _filtered(clock: Clock | None = None, **options: Any) -> Store:
    config = StoreConfig().replace(**options)
    other = MemoryStore(config, clock=clock)
    routes = [
        Route(store=other, destination=Destination.topic(">")),
        Route(store=other, destination=Destination.queue("OTHER.>")),
        Route(store=MemoryStore(config, clock=clock)),
    ]
    return FilteredStore(routes, clock=clock)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Each reason for skipping once, with its number of tests."""
    reasons = Counter(str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"{count} tests: {reason}")
