"""A configuration with a journal: what opens, what is refused, what becomes of a journal that was left."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Configuration, MemoryStore, Message, load_config
from jdbcstore.broker.process.host import BrokerHost
from jdbcstore.config import DataSourceConfig, StoreConfig
from jdbcstore.config.broker import BrokerConfig, ConnectorConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import (
    LeaseDatabaseLockerConfig,
    LeaseLockerIOExceptionHandlerConfig,
    LockerConfig,
    SharedFileLockerConfig,
    ZooKeeperLockerConfig,
)
from jdbcstore.database.engine import Database as DatabaseOfStore
from jdbcstore.errors import ConfigurationError, JournalInUse, JournalPending, NotMaster
from jdbcstore.stores.io_exceptions import GuardedStore
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.stores.journaled import JournaledStore
from jdbcstore.testing.messages import content, fill
from tests.support.broker.frames import Stomp
from tests.support.databases import Database
from tests.support.opening import WAIT, kill, other_process, written


def configured(folder: Path, **more: object) -> Configuration:
    return Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{folder}/data/mq.db"),
        store=StoreConfig(cleanup_period=0.0),
        journal=JournalConfig(directory=str(folder / "journal"), journal_log_file_size=1 << 20),
        **more,  # type: ignore[arg-type]
    )


def rows(folder: Path) -> int:
    """How many messages are in the database."""
    with closing(sqlite3.connect(folder / "data" / "mq.db")) as raw:
        return int(raw.execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS").fetchone()[0])


def test_it_is_opened_in_front_of_the_database(tmp_path: Path) -> None:
    with jdbcstore.open(configured(tmp_path)) as store:
        assert isinstance(store, JournaledStore)
        fill(store.queue("Q"), "a", "b")
        store.queue("Q").acknowledge(store.queue("Q").recover()[0])
        assert (rows(tmp_path), content(store.queue("Q"))) == (0, ["b"])

    assert rows(tmp_path) == 1
    with jdbcstore.open(replace(configured(tmp_path), journal=None)) as plain:
        assert content(plain.queue("Q")) == ["b"]


def test_in_front_of_a_store_in_memory(tmp_path: Path) -> None:
    memory = replace(configured(tmp_path), data_source=DataSourceConfig(url="memory:"))

    with jdbcstore.open(memory) as store:
        assert isinstance(store, JournaledStore)
    with jdbcstore.open(replace(memory, journal=replace(memory.journal, use_journal=False))) as store:  # type: ignore[type-var]
        assert isinstance(store, MemoryStore)


def test_what_a_killed_process_left_is_taken_over(tmp_path: Path) -> None:
    configuration = load_config(written(tmp_path), environment={}, cleanup_period=0.0)
    process = other_process(tmp_path / "jdbcstore.toml")
    with pytest.raises(JournalInUse, match=f"process {process.pid} has the journal in"):
        jdbcstore.open(configuration)
    kill(process)
    assert rows(tmp_path) == 0

    with pytest.raises(JournalPending):
        jdbcstore.open(replace(configuration, journal=None))
    with jdbcstore.open(configuration) as store:
        assert content(store.queue("Q")) == [f"m{n}" for n in range(10)]
    assert rows(tmp_path) == 10


def test_use_journal_false_takes_it_into_the_database(tmp_path: Path) -> None:
    kill(other_process(written(tmp_path)))
    without = load_config(
        tmp_path / "jdbcstore.toml",
        environment={"JDBCSTORE_JOURNAL_USE_JOURNAL": "false"},
        cleanup_period=0.0,
    )

    for expected in (10, 11):
        with jdbcstore.open(without) as store:
            assert isinstance(store, JdbcStore)
            assert rows(tmp_path) == expected
            store.queue("Q").add_message(Message("x"))
    with jdbcstore.open(replace(without, journal=None)) as store:
        assert len(content(store.queue("Q"))) == 12


@pytest.mark.backends("postgresql")
@pytest.mark.parametrize("kind", ["database-locker", "lease-database-locker"])
def test_with_the_lock_of_a_server_it_is_refused(tmp_path: Path, database: Database, kind: str) -> None:
    path = tmp_path / "activemq.xml"
    locker = "" if kind == "database-locker" else f"<locker><{kind}/></locker>"
    path.write_text(
        "<broker><persistenceFactory>\n"
        f'<journalPersistenceAdapterFactory dataSource="#ds" dataDirectory="{tmp_path}">{locker}\n'
        "</journalPersistenceAdapterFactory></persistenceFactory>\n"
        f'<bean id="ds" class="X"><property name="url" value="{database.url}"/></bean></broker>'
    )

    with pytest.raises(ConfigurationError) as raised:
        jdbcstore.open(load_config(path, environment={}))

    assert str(raised.value).startswith(
        f"{path}:2, dataDirectory: the {kind} lets a broker on another machine"
    )
    assert "JDBCSTORE_JOURNAL_JOURNAL_SHARED=true" in str(raised.value)
    assert not (tmp_path / "journal").exists()


def test_with_a_lock_in_zookeeper_it_is_refused(tmp_path: Path) -> None:
    locker = ZooKeeperLockerConfig(address="127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="the zookeeper-locker lets a broker on another machine"):
        jdbcstore.open(configured(tmp_path, locker=locker))


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("sqlite:///x.db", True),
        ("jdbc:derby:activemq-data/derbydb;create=true", True),
        ("jdbc:derby://db.example.com/mq", False),
        ("postgresql:///mq", False),
    ],
)
def test_what_no_other_machine_reaches(url: str, local: bool) -> None:
    assert DatabaseOfStore(url, StoreConfig()).is_local is local


@pytest.mark.parametrize(
    "locker", [LeaseDatabaseLockerConfig(), SharedFileLockerConfig(directory=".")], ids=lambda one: one.type
)
def test_with_the_lock_of_a_file_it_is_not(
    tmp_path: Path, locker: LockerConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with jdbcstore.open(configured(tmp_path, locker=locker)) as store:
        assert isinstance(store, GuardedStore)
        assert store.fence is not None
        store.check()
        with pytest.raises(NotMaster):
            jdbcstore.open(configured(tmp_path, locker=locker), lock_timeout=0.0)


@pytest.mark.backends("postgresql")
def test_who_follows_on_a_shared_directory_has_all_of_it(tmp_path: Path, database: Database) -> None:
    path = tmp_path / "jdbcstore.toml"
    path.write_text(
        f'url = "{database.url}"\n[locker]\ntype = "lease-database-locker"\n'
        "lock_acquire_sleep_interval = 10.0\nlock_keep_alive_period = 0.5\n"
        f'[journal]\ndirectory = "{tmp_path}/journal"\njournal_shared = true\n'
    )
    successor = load_config(path, environment={}, cleanup_period=0.0)
    process = other_process(path)
    with pytest.raises(NotMaster):
        jdbcstore.open(replace(successor, broker_name="other"), lock_timeout=0.0)
    kill(process)
    assert database.rows("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") == [(0,)]

    with jdbcstore.open(replace(successor, broker_name="other"), lock_timeout=WAIT) as store:
        assert content(store.queue("Q")) == [f"m{n}" for n in range(10)]


def test_a_broker_serves_from_it(tmp_path: Path) -> None:
    configuration = configured(
        tmp_path,
        broker=BrokerConfig(connectors=(ConnectorConfig(uri="stomp://127.0.0.1:0"),)),
        io_exception_handler=LeaseLockerIOExceptionHandlerConfig(),
    )

    async def main() -> None:
        async with asyncio.timeout(WAIT):
            for _ in range(2):
                async with BrokerHost(configuration) as host:
                    [(_, address)] = host.addresses
                    async with Stomp(address.port) as client:
                        await client.send("/queue/A", "two pints")
                    with pytest.raises(JournalInUse):
                        jdbcstore.open(configuration)

    asyncio.run(main())
    with jdbcstore.open(configuration) as store:
        assert content(store.queue("A")) == ["two pints", "two pints"]


def test_sequences_go_on_where_the_journal_was_closed(tmp_path: Path) -> None:
    given = []
    for _ in range(3):
        with jdbcstore.open(configured(tmp_path)) as store:
            given.append(store.queue("Q").add_message(Message("x")).sequence)
            store.checkpoint()  # type: ignore[attr-defined]

    assert given == [1, 2, 3]


@pytest.mark.parametrize("written", [False, True])
def test_a_store_without_the_journal_adds_nothing_beside_it(tmp_path: Path, written: bool) -> None:
    """It was opened first, when the journal had nothing that the tables have not."""
    configuration = configured(tmp_path)
    with jdbcstore.open(configuration) as journaled:
        journaled.topic("T").subscribe("c", "s")
        fill(journaled.queue("Q"), *["x"] * written)
    with JdbcStore(str(configuration.data_source.url), StoreConfig(cleanup_period=0.0)) as beside:
        beside.topic("T").add_message(Message("before"))
        with jdbcstore.open(configuration) as journaled:
            journaled.topic("T").add_message(Message("journaled"))
            subscription = journaled.topic("T").subscription("c", "s")
            subscription.acknowledge(*subscription.recover())
            with pytest.raises(JournalPending):
                beside.topic("T").add_message(Message("beside"))
        beside.topic("T").add_message(Message("after"))
        assert content(beside.topic("T").subscription("c", "s")) == ["after"]
