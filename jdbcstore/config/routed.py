"""Several stores as one, each with its destinations, and the layout of a store's directory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fields import Options, check
from jdbcstore.config.journal import JournalConfig, stream_name
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination

DATABASE = "jdbcstore.db"
"""The SQLite database in a store's directory."""
JOURNAL = "journal"
"""The journal in a store's directory."""

_STEM = 60
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedStoreConfig(Options):
    """One of several stores; ActiveMQ's ``filteredKahaDB`` in an ``mKahaDB``.

    The options of :class:`~jdbcstore.config.StoreConfig` are common to all of them. Options are None or
    off by default.

    :raises ConfigurationError: it has no place, or two, or its patterns are not destinations
    """

    queue: str | None = None
    """The queues of this store: a name, a wildcard, or several separated by commas."""
    topic: str | None = None
    """The topics. With neither, the store has all destinations that no other store has."""
    name: str | None = None
    """The name by which unfinished transactions refer to this store; None is its pattern. Not in
    ActiveMQ."""
    data_source: DataSourceConfig | None = None
    """The database; the URL ``memory:`` for none. The database of the ``persistenceAdapter``."""
    directory: str | None = None
    """Instead of a database, the directory of an SQLite database and its journal."""
    per_destination: bool = False
    """Whether each destination has its own store in the directory, created at its first use."""
    journal: JournalConfig | None = None
    """The journal; it is in the store's directory, if there is one."""

    def __post_init__(self) -> None:
        check(self)
        if (self.data_source is None) == (self.directory is None):
            raise ConfigurationError(
                "a store has a data_source or a directory; give one of them", option="directory"
            )
        if self.per_destination and self.directory is None:
            raise ConfigurationError(
                "per_destination needs a directory, in which each destination gets a folder; give one",
                option="per_destination",
            )
        if self.journal is not None and not self.journal.use_journal:
            raise ConfigurationError("use_journal is for a single store; leave the section journal out")
        try:
            _ = self.patterns
        except InvalidDestination as error:
            option = "queue" if self.topic is None else "topic"
            raise ConfigurationError(str(error), option=option) from error

    @property
    def patterns(self) -> tuple[Destination, ...]:
        """The destinations of this store; empty for all that no other store has."""
        patterns = () if self.queue is None else (Destination.queue(self.queue),)
        return patterns if self.topic is None else (*patterns, Destination.topic(self.topic))

    @property
    def label(self) -> str:
        """The name of this store, or its patterns."""
        return self.name if self.name is not None else " ".join(map(str, self.patterns))

    def name_in(self, folder: Path | None) -> str:
        """Return a name for one of its stores: that of its folder, or else one made of its label."""
        return folder_name(self.label or "others") if folder is None else folder.name

    def journal_in(self, folder: Path | None) -> JournalConfig | None:
        """Return the journal of one of its stores, in a folder and with a stream of its own."""
        journal = self.journal
        if journal is not None and folder is not None:
            journal = replace(journal, directory=str(folder / JOURNAL))
        if journal is not None and journal.stream is not None:
            name = stream_name(journal.stream_name, self.name_in(folder))
            journal = replace(journal, stream_name=name)
        return journal


def check_routed(stores: Iterable[RoutedStoreConfig]) -> None:
    """Check that the stores have different names and places.

    :raises ConfigurationError: two have the same
    """
    labels: set[str] = set()
    places: set[str | None] = set()
    streams: set[str] = set()
    for number, store in enumerate(stores):
        option = f"stores[{number}]"
        if store.label in labels:
            what = f"the name {store.label!r}" if store.label else "neither queue nor topic"
            raise ConfigurationError(f"two stores have {what}; put their patterns into one", option=option)
        place = store.directory if store.data_source is None else store.data_source.url
        if place in places and place != "memory:":
            raise ConfigurationError(
                f"two stores are in {place}; put their patterns into one, separated by commas",
                option=option,
            )
        folder = None if store.directory is None or store.per_destination else Path(store.directory)
        stream = store.journal_in(folder)
        if stream is not None and stream.stream is not None:
            if stream.stream_name in streams:
                raise ConfigurationError(
                    f"two stores would have the stream {stream.stream_name}; give each a stream_name of its"
                    " own",
                    option=f"{option}.journal.stream_name",
                )
            streams.add(stream.stream_name)
        labels.add(store.label)
        places.add(place)


def folder_name(name: str) -> str:
    """Return a folder name for a destination or pattern: readable, stable, distinct on all file systems."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{_UNSAFE.sub('_', name)[:_STEM].strip('._') or 'others'}-{digest}"
