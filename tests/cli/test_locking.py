"""``lock`` and ``wait-master``, and what writes while another is the master."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import Configuration, JdbcStore, Message
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig
from jdbcstore.errors import LockLost
from tests.cli.conftest import Invoke

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
    assert "nobody" in invoke("lock", "--release").out
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
