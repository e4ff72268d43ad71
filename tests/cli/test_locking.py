"""``lock`` and ``wait-master``, and what writes while another is the master."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import Configuration, JdbcStore, Message, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import (
    DatabaseLockerConfig,
    LeaseDatabaseLockerConfig,
    LockerConfig,
    SharedFileLockerConfig,
)
from jdbcstore.errors import LockLost, NotMaster
from jdbcstore.lockers import make_locker
from tests.cli.conftest import Invoke
from tests.support.databases import Database

LOCKER = '[locker]\ntype = "lease-database-locker"\n'


@pytest.fixture
def master(local_url: str, tmp_path: Path) -> Iterator[JdbcStore]:
    (tmp_path / "activemq-data").mkdir(exist_ok=True)
    lease = LeaseDatabaseLockerConfig()
    configuration = Configuration(
        data_source=DataSourceConfig(url=local_url), broker_name="boss", locker=lease
    )
    with JdbcStore.configured(configuration.replace(cleanup_period=0.0)) as store:
        yield store


@pytest.mark.usefixtures("master")
def test_the_holder_is_shown(invoke: Invoke) -> None:
    shown = invoke("lock", "--json").json
    assert shown["holder"].startswith("boss#")
    assert shown["leased"]
    assert 0 < shown["expires"] - shown["database_time"] <= 10_000
    assert abs(shown["skew_ms"]) < 1000
    assert shown["epoch"] == 1
    assert "boss#" in invoke("lock").out


def test_a_lease_that_is_running_is_not_released_by_mistake(invoke: Invoke, master: JdbcStore) -> None:
    refused = invoke("lock", "--release")
    assert refused.code == 8
    assert "--force" in refused.err
    master.queue("Q").add_message(Message("still the master"))
    forced = invoke("lock", "--release", "--force")
    assert (forced.code, forced.out.startswith("released the lock of boss#")) == (0, True)
    with pytest.raises(LockLost):
        master.queue("Q").add_message(Message("deposed"))
    assert invoke("lock", "--json").json["epoch"] == 2


def test_nobody_is_master(invoke: Invoke) -> None:
    assert invoke("init").code == 0
    assert invoke("lock", "--json").json["holder"] is None
    assert "the lock is free" in invoke("lock", "--release").out
    waited = invoke("wait-master", "--timeout", "0")
    assert waited.code == 8


@pytest.mark.usefixtures("master")
def test_waiting_for_a_master(invoke: Invoke) -> None:
    assert invoke("wait-master", "--timeout", "5", "--json").json["holder"].startswith("boss#")
    assert invoke("wait-master", "--timeout", "0", "--holder", "boss").code == 0
    assert invoke("wait-master", "--timeout", "0", "--holder", "other").code == 8


def test_what_writes_is_refused_while_there_is_a_master(
    invoke: Invoke, master: JdbcStore, tmp_path: Path
) -> None:
    (tmp_path / "jdbcstore.toml").write_text(LOCKER)
    refused = invoke("send", "Q", "x")
    assert refused.code == 8
    assert "boss#" in refused.err
    assert invoke("browse", "Q").code == 0
    master.close()
    assert invoke("send", "Q", "x").code == 0


COMMANDS = {
    "send": ("send", "topic://T", "x"),
    "consume": ("consume", "Q"),
    "purge": ("purge", "Q"),
    "cleanup": ("cleanup",),
    "subscribe": ("subscribe", "topic://T", "--client-id", "new", "--subscription", "s"),
    "unsubscribe": ("unsubscribe", "topic://T", "--client-id", "c", "--subscription", "s"),
    "xa": ("xa", "rollback", "XID:[1,globalId=01,branchId=]"),
}


def _locker(kind: str, folder: Path) -> LockerConfig:
    lockers: dict[str, LockerConfig] = {
        "a lease": LeaseDatabaseLockerConfig(),
        "its row": DatabaseLockerConfig(),
        "a file of its own": SharedFileLockerConfig(directory=str(folder / "elsewhere")),
        "a broker's own locker": SharedFileLockerConfig(
            directory=str(folder / "activemq-data" / "jdbcstore.db-lock")
        ),
    }
    return lockers[kind]


@pytest.mark.parametrize("kind", ["a lease", "a file of its own", "a broker's own locker"])
def test_a_command_changes_nothing_beside_whoever_serves(
    invoke: Invoke, local_url: str, tmp_path: Path, kind: str
) -> None:
    """The command is told of no locker: it looks at the database."""
    (tmp_path / "activemq-data").mkdir()
    locker = make_locker(_locker(kind, tmp_path), "boss")
    with JdbcStore(local_url, StoreConfig(cleanup_period=0.0), locker=locker) as serving:
        serving.queue("Q").add_message(Message("in the queue"))
        serving.topic("T").subscribe("c", "s")
        branch = serving.xa.start(jdbcstore.XATransactionId(1, b"\x01", b""))
        branch.queue("Q").add_message(Message("prepared"))
        assert branch.prepare()
        for command in COMMANDS.values():
            refused = invoke(*command)
            assert (refused.code, refused.out) == (8, "")
            assert "holds the lock, and nothing was changed" in refused.err
        assert [message.body for message in serving.queue("Q").recover()] == ["in the queue"]
        assert [one.client_id for one in serving.topic("T").subscriptions()] == ["c"]
        assert serving.topic("T").message_count() == 0
        assert len(serving.xa.recover()) == 1
        shown = invoke("status")
        assert "lock     held" in shown.out
        assert ("boss#" if kind == "a lease" else "this process") in shown.out
        serving.queue("Q").add_message(Message("still the master"))
    assert "lock     free" in invoke("status").out
    for command in COMMANDS.values():
        assert invoke(*command).code == 0


@pytest.mark.backends("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("kind", ["its row", "a file of its own"])
def test_whoever_holds_another_lock_on_a_server_is_seen(
    invoke: Invoke, database: Database, tmp_path: Path, kind: str
) -> None:
    configuration = Configuration(
        data_source=DataSourceConfig(url=database.url), locker=_locker(kind, tmp_path)
    )
    with JdbcStore.configured(configuration.replace(cleanup_period=0.0)):
        assert invoke("send", "Q", "x", "--url", database.url).code == 8
        assert "lock     held" in invoke("status", "--url", database.url).out
        assert invoke("wait-master", "--timeout", "0", "--url", database.url).code == 0
    assert invoke("send", "Q", "x", "--url", database.url).code == 0
    assert "lock     free" in invoke("status", "--url", database.url).out


@pytest.mark.backends("postgresql")
def test_two_kinds_of_locks_are_not_held_at_once(database: Database, tmp_path: Path) -> None:
    kinds = ["a lease", "its row", "a file of its own"]
    for first in kinds:
        with JdbcStore(database.url, locker=make_locker(_locker(first, tmp_path), "first")):
            for second in kinds:
                locker = make_locker(_locker(second, tmp_path), "second")
                with pytest.raises(NotMaster):
                    JdbcStore(database.url, locker=locker, lock_timeout=0.0)


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_waiting_for_a_master_with_a_wrong_password_ends(invoke: Invoke, database: Database) -> None:
    url = database.engine.url.set(username="nobody", password="wrong")
    waited = invoke("wait-master", "--url", url.render_as_string(hide_password=False))
    assert (waited.code, "refused the login" in waited.err) == (4, True)


def test_waiting_for_a_master_says_what_it_waits_for(invoke: Invoke) -> None:
    waited = invoke("wait-master", "--timeout", "0", "--url", "postgresql://x@127.0.0.1:1/x")
    assert waited.code == 8
    assert "waiting: cannot reach postgresql" in waited.err
