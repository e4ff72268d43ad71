"""New connections: none creates a second SQLite file, and none is left open when it cannot be prepared."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jdbcstore
from jdbcstore.config import StoreConfig
from jdbcstore.config.fields import LONGEST
from jdbcstore.database.engine import Database
from jdbcstore.errors import StoreUnavailable
from tests.support.databases import Database as Created


@pytest.mark.parametrize("name", ["mq.db", "two pints? 50%#1.db"])
def test_a_moved_file_is_not_created_again(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    database = Database(f"sqlite:///{str(file).replace('?', '%3F')}", StoreConfig())
    engine = database.connect_with()
    with database.translated(), engine.connect():
        assert file.exists()
        file.rename(tmp_path / "moved")
        with pytest.raises(StoreUnavailable, match="is the disk mounted"), database.translated():
            engine.connect()
        assert not file.exists()
    engine.dispose()


def test_a_disk_without_room_for_the_index_of_a_log_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mq.db'}"
    jdbcstore.open(url).close()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
    try:
        with pytest.raises(StoreUnavailable, match="check the disk, and whether it is full"):
            jdbcstore.open(url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.backends("sqlite", "postgresql", "mariadb")
def test_a_connection_in_use_when_its_pool_ends_is_closed_after_use(database: Created) -> None:
    engine = Database(database.url, StoreConfig()).connect_with()
    with engine.connect():
        engine.dispose()
    database.expect_closed()
    with engine.connect():
        pass
    engine.dispose()
    database.expect_closed()


class Broken(RuntimeError):
    """What each step of the preparation raises in turn."""


@pytest.fixture(params=["limit_answers", "limit_query", "on_connect", "of_server"])
def refusing(request: pytest.FixtureRequest, database: Created) -> Iterator[Database]:
    made = Database(database.url, StoreConfig(network_timeout=5.0, query_timeout=5.0))

    def refuse(*_: Any) -> None:
        raise Broken

    with pytest.MonkeyPatch.context() as patched:
        for adapter in (type(made.adapter), *type(made.adapter).__mro__):
            if request.param in vars(adapter):
                patched.setattr(adapter, request.param, refuse)
        yield made


@pytest.mark.backends("postgresql", "mariadb", "mysql")
def test_timeouts_beyond_what_the_server_can_count(database: Created) -> None:
    made = Database(database.url, StoreConfig(network_timeout=LONGEST, query_timeout=LONGEST))
    engine = made.connect_with(limited=True)
    with engine.connect():
        pass
    engine.dispose()


@pytest.mark.backends("postgresql", "mariadb")
def test_a_connection_that_cannot_be_prepared_is_closed(refusing: Database, database: Created) -> None:
    engine = refusing.connect_with(limited=True)
    with pytest.raises(Broken):
        engine.connect()
    engine.dispose()
    database.expect_closed()
