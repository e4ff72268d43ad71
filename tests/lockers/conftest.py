from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from jdbcstore import Configuration, JdbcStore, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.locker import LeaseDatabaseLockerConfig, LockerConfig
from tests.support.databases import Database

OpenLocked = Callable[..., JdbcStore]

LEASE = LeaseDatabaseLockerConfig(lock_acquire_sleep_interval=30.0, lock_keep_alive_period=5.0)
"""Longer than any test: what happens is the test's doing."""


@pytest.fixture
def open_locked(database: Database) -> Iterator[OpenLocked]:
    """Opens stores with a locker on this test's database; each is closed at the end."""
    with ExitStack() as stores:

        def open_locked(
            locker: LockerConfig = LEASE, *, url: str | None = None, broker_name: str = "one", **options: Any
        ) -> JdbcStore:
            configuration = Configuration(
                data_source=DataSourceConfig(url=url or database.url),
                store=StoreConfig(cleanup_period=0.0),
                broker_name=broker_name,
                locker=locker,
            )
            store_options = {name: options.pop(name) for name in [*options] if hasattr(StoreConfig, name)}
            store = JdbcStore.configured(
                replace(configuration, store=configuration.store.replace(**store_options)), **options
            )
            stores.callback(store.close)
            return store

        yield open_locked
