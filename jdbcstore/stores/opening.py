"""The opening of the stores that a configuration describes: their journals, lockers and routes."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING

from jdbcstore.abc import Progress, Store
from jdbcstore.config import Configuration, DataSourceConfig
from jdbcstore.config.data_source import sqlite_file, sqlite_url
from jdbcstore.config.journal import JournalConfig
from jdbcstore.config.locker import (
    DatabaseLockerConfig,
    LeaseDatabaseLockerConfig,
    SharedFileLockerConfig,
    ZooKeeperLockerConfig,
)
from jdbcstore.config.routed import DATABASE, RoutedStoreConfig, folder_name
from jdbcstore.database.engine import Database
from jdbcstore.errors import ConfigurationError, CorruptJournal, JournalPending, LockLost
from jdbcstore.stores.io_exceptions import GuardedStore, Tenure
from jdbcstore.stores.jdbc.store import JdbcStore
from jdbcstore.util.clock import Clock

if TYPE_CHECKING:
    from jdbcstore.stores.filtered import FilteredStore, Route, StorePerDestination

log = logging.getLogger(__name__)

MEMORY = "memory:"


class Opening:
    """Opens the stores of one configuration, with the same options for each.

    Methods import the kinds of stores that they need: most commands open a database only.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        clock: Clock | None = None,
        read_only: bool = False,
        lock_timeout: float | None = None,
        cancel: threading.Event | None = None,
        progress: Progress | None = None,
        locker: EllipsisType | None = ...,
    ) -> None:
        self._configuration = configuration
        self._clock = clock
        self._read_only = read_only
        self._tenancies = Tenancies()
        self._progress = progress
        self._lock_timeout = lock_timeout
        self._cancel = cancel
        self._open_database = partial(
            JdbcStore.configured,
            clock=clock,
            read_only=read_only,
            lock_timeout=lock_timeout,
            cancel=cancel,
            locker=locker,
        )

    def open(self) -> Store:
        """Open the store, and log the notes of its configuration.

        :raises StoreError: as :func:`jdbcstore.open` says
        """
        self._configuration.log_notes(log)
        if not self._read_only:
            with self._configuration.locating_errors():
                _refuse_outbox(self._configuration)
        return self._open_several() if self._configuration.stores else self._open_one(self._configuration)

    def open_database(self) -> JdbcStore:
        """Open the database without its journal, which must not be in use meanwhile.

        :raises ConfigurationError: there are several stores, or no database
        :raises StoreError: as :func:`jdbcstore.open` says
        """
        self._configuration.log_notes(log)
        return self._open_database(self._configuration, journaled=self._configuration.journal is not None)

    def _open_one(self, configuration: Configuration) -> Store:
        journal = None if self._read_only else configuration.journal
        if journal is not None and journal.replicated:
            return self._open_replicated(configuration)
        if configuration.data_source.url == MEMORY:
            from jdbcstore.stores.memory import MemoryStore

            memory = MemoryStore(configuration.store, clock=self._clock)
            if journal is None or not journal.use_journal:
                return memory
            from jdbcstore.stores.journaled import JournaledStore

            return JournaledStore(memory, journal, clock=self._clock, progress=self._progress)
        if journal is None:
            return self._open_database(configuration)
        file = sqlite_file(configuration.data_source.url)
        if file is not None:
            make_folder(file.parent)
        if journal.use_journal:
            with configuration.locating_errors():
                _refuse_apart(configuration, journal)
            return self._open_journaled(configuration, journal)
        with contextlib.suppress(JournalPending):
            database = self._open_database(configuration)
            if not self._lacks(database, journal):
                return database
        log.info("the journal in %s is applied to the database", journal.place)
        self._open_journaled(configuration, journal).close()
        return self._open_database(configuration)

    def _open_replicated(self, configuration: Configuration) -> Store:
        from jdbcstore.stores.replicated.nodes import database_file
        from jdbcstore.stores.replicated.opening import open_replicated

        with configuration.locating_errors():
            make_folder(database_file(configuration).parent)
            return open_replicated(
                configuration,
                clock=self._clock,
                lock_timeout=self._lock_timeout,
                cancel=self._cancel,
                progress=self._progress,
            )

    def _open_journaled(self, configuration: Configuration, journal: JournalConfig) -> Store:
        from jdbcstore.stores.guarded import JournaledJdbcStore

        database = self._open_database(configuration, journaled=True)
        try:
            return JournaledJdbcStore(database, journal, clock=self._clock, progress=self._progress)
        except BaseException:
            database.close()
            raise

    @staticmethod
    def _lacks(database: JdbcStore, journal: JournalConfig) -> bool:
        """Return whether a disused journal has records that the database lacks; then that is closed.

        :raises ConfigurationError: the journal belongs to another database
        """
        from jdbcstore.stores.journaled.recovery import has_more

        lacks = True
        try:
            lacks = has_more(journal, database)
        except CorruptJournal as error:
            lacks = False
            log.warning("the journal in %s is ignored: %s", journal.place, error)
        finally:
            if lacks:
                database.close()
        return lacks

    def _open_several(self) -> FilteredStore:
        from jdbcstore.stores.guarded import GuardedFilteredStore

        with ExitStack() as opened:
            routes = [
                route for config in self._configuration.stores for route in self._routes(config, opened)
            ]
            fence = None if self._configuration.locker is None else self._tenancies
            store = GuardedFilteredStore(routes, fence=fence, clock=self._clock, read_only=self._read_only)
            opened.pop_all()
            return store

    def _routes(self, config: RoutedStoreConfig, opened: ExitStack) -> Iterable[Route]:
        from jdbcstore.stores.filtered import Route, StorePerDestination

        folder = None if config.directory is None else Path(config.directory)
        store: Store | StorePerDestination
        if config.per_destination and folder is not None:
            open_store = partial(self._open_in, config)
            store = StorePerDestination(folder, open_store, read_only=self._read_only)
        else:
            store = self._open_in(config, folder)
            opened.callback(_close, store)
        return [
            Route(store=store, destination=pattern, name=config.label)
            for pattern in config.patterns or (None,)
        ]

    def _open_in(self, config: RoutedStoreConfig, folder: Path | None) -> Store:
        if folder is not None and not self._read_only:
            make_folder(folder)
        store = self._open_one(_of_route(self._configuration, config, folder))
        if isinstance(store, GuardedStore) and store.fence is not None:
            self._tenancies.add(store.fence)
        return store


class Tenancies:
    """The mastership of several stores, which ends with the first that is lost."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._each: list[Tenure] = []
        self._listeners: list[Callable[[LockLost], None]] = []

    def add(self, tenure: Tenure) -> None:
        with self._lock:
            self._each.append(tenure)
            listeners = [*self._listeners]
        for listener in listeners:
            tenure.on_lost(listener)

    @property
    def lost(self) -> LockLost | None:
        with self._lock:
            return next((tenure.lost for tenure in self._each if tenure.lost is not None), None)

    def on_lost(self, listener: Callable[[LockLost], None]) -> None:
        with self._lock:
            self._listeners.append(listener)
            each = [*self._each]
        for tenure in each:
            tenure.on_lost(listener)


def with_journals(configuration: Configuration) -> Iterator[Configuration]:
    """Return the configurations of the single stores that exist and have a journal."""
    every = [] if configuration.stores else [configuration]
    for config in configuration.stores:
        folder = None if config.directory is None else Path(config.directory)
        folders: list[Path | None] = [folder]
        if config.per_destination and folder is not None:
            folders = [*(path for path in sorted(folder.glob("*")) if path.is_dir())]
        every += [_of_route(configuration, config, path) for path in folders]
    return (config for config in every if config.journal is not None)


def _of_route(configuration: Configuration, config: RoutedStoreConfig, folder: Path | None) -> Configuration:
    """Return the configuration of one of several stores, in its folder if it has one.

    :raises ConfigurationError: the locker does not support several stores
    """
    journal, source, locker = config.journal_in(folder), config.data_source, configuration.locker
    if journal is not None and journal.replicated:
        raise ConfigurationError(
            "a replicated journal is not for one of several stores, which would have several masters; share"
            " their databases, or have one store",
            option="stores",
        )
    if folder is not None:
        source = DataSourceConfig(url=sqlite_url(folder / DATABASE))
    if getattr(locker, "data_source", None) is not None:
        raise ConfigurationError(
            "each of several stores has the lock in its own database; leave out the locker's data_source",
            option="locker.data_source",
        )
    if isinstance(locker, SharedFileLockerConfig):
        of_label = Path(locker.directory or "") / folder_name(config.label or "others")
        locker = replace(locker, directory=str(folder or of_label))
    if isinstance(locker, ZooKeeperLockerConfig):
        locker = replace(locker, path=f"{locker.path}/{config.name_in(folder)}")
    implied = "locker.type" not in configuration.sources
    has_files = journal is not None and journal.stream is None
    if has_files and implied and isinstance(locker, LeaseDatabaseLockerConfig):
        locker = None  # the journal's files keep other processes out; a stream would let them take over
    return replace(
        configuration,
        stores=(),
        data_source=source or DataSourceConfig(),
        journal=journal,
        locker=locker,
        sources=_sources_of(configuration, config),
    )


def _sources_of(configuration: Configuration, config: RoutedStoreConfig) -> dict[str, str]:
    """Return the places where the options of one store were set, as if it were the only one."""
    sources = dict(configuration.sources)
    prefix = f"stores[{configuration.stores.index(config)}]."
    own = {path.removeprefix(prefix): place for path, place in sources.items() if path.startswith(prefix)}
    if "directory" in own:
        own |= {"url": own["directory"], "journal.directory": own["directory"]}
    return sources | {path.removeprefix("data_source."): place for path, place in own.items()}


def _refuse_outbox(configuration: Configuration) -> None:
    """Check that an outbox is moved by the transactions of its own database.

    :raises ConfigurationError: a journal, or several stores, would commit the messages elsewhere
    """
    journal = configuration.journal
    others = {
        "several stores": bool(configuration.stores),
        "a journal": journal is not None and journal.use_journal,
        "a store in memory": configuration.data_source.url == MEMORY,
    }
    for what, is_there in others.items():
        if is_there and configuration.store.outbox:
            raise ConfigurationError(
                f"outbox moves messages in transactions of one database, which {what} cannot do: leave out"
                f" outbox, or {what}",
                option="outbox",
            )


def _refuse_apart(configuration: Configuration, journal: JournalConfig) -> None:
    """Check that the next master has the journal, too.

    :raises ConfigurationError: the next master may be on another machine
    """
    locker = configuration.locker
    if journal.journal_shared or journal.stream is not None:
        return
    if isinstance(locker, DatabaseLockerConfig | LeaseDatabaseLockerConfig):
        source = locker.data_source or configuration.data_source
        if source.url is None or Database(source.url, configuration.store).is_local:
            return
    elif not isinstance(locker, ZooKeeperLockerConfig):
        return
    raise ConfigurationError(
        f"the {locker.type} lets a broker on another machine take over, which does not have the journal here:"
        " leave out the locker or the journal, or set journal_shared = true"
        " (JDBCSTORE_JOURNAL_JOURNAL_SHARED=true) if its directory is on storage that each of them mounts",
        option="journal.directory",
    )


def make_folder(folder: Path) -> None:
    """Create a folder for the database of a store.

    :raises ConfigurationError: it cannot be created
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot create the folder {folder} for a store: {error.strerror}; create it, or choose another"
        ) from error


def _close(store: Store) -> None:
    with contextlib.suppress(Exception):
        store.close()
