"""Brokers of a replicated journal, each with a database of its own, in this process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import jdbcstore
from jdbcstore import Configuration, StoreConfig
from jdbcstore.config import DataSourceConfig
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import LockerConfig, StreamLockerConfig
from jdbcstore.stores.replicated.store import ReplicatedStore

QUICK_LOCK = StreamLockerConfig(session_timeout=2.0, lock_keep_alive_period=0.4)
"""A master that stands still for less than two seconds, in an overload, has lost it."""
PATIENT_LOCK = StreamLockerConfig(session_timeout=60.0, lock_keep_alive_period=0.4)
"""For a master that is closed, and so does not keep the next one waiting."""


def node(
    url: str,
    of: str,
    folder: Path,
    name: str,
    *,
    locker: LockerConfig | None = QUICK_LOCK,
    **options: Any,
) -> Configuration:
    """The configuration of one of several brokers."""
    given = {
        "stream": url,
        "stream_name": of,
        "replicated": True,
        "replicas": 1,
        "journal_log_file_size": 4096,
        "node": name,
        **options,
    }
    return Configuration(
        data_source=DataSourceConfig(url=f"sqlite:///{folder / name}.db"),
        store=StoreConfig(cleanup_period=0.0),
        journal=JournalConfig(**given),
        broker_name=name,
        locker=locker,
    )


class Waiting:
    """A broker that follows the stream, until it is the master."""

    def __init__(self, configuration: Configuration) -> None:
        self._cancel = threading.Event()
        self._configuration = configuration
        self._store: ReplicatedStore | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._open, daemon=True)
        self._thread.start()

    def _open(self) -> None:
        try:
            opened = jdbcstore.open(self._configuration, cancel=self._cancel)
            assert isinstance(opened, ReplicatedStore)
            self._store = opened
        except BaseException as error:
            self.error = error

    def store(self, timeout: float = 60.0) -> ReplicatedStore:
        """Wait until it is the master; return its store."""
        self._thread.join(timeout)
        if self.error is not None:
            raise self.error
        assert self._store is not None, "it is not the master"
        return self._store

    @property
    def is_master(self) -> bool:
        """Whether it has become the master, and is not closed."""
        return self._store is not None and not self._cancel.is_set()

    def close(self) -> None:
        """End it, also as a follower."""
        self._cancel.set()
        self._thread.join()
        if self._store is not None:
            self._store.close()
