"""Several stores as one: which destinations are where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jdbcstore.config.data_source import DataSourceConfig
from jdbcstore.config.fields import check
from jdbcstore.config.journal import JournalConfig
from jdbcstore.errors import ConfigurationError, InvalidDestination
from jdbcstore.message.destination import Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedStoreConfig:
    """One of several stores. The options of the store at the top of the file are those of each."""

    queue: str | None = None
    """The queues that it has; wildcards, and several with commas between."""
    topic: str | None = None
    """The topics. With neither, it has all destinations that no other has."""
    name: str | None = None
    """What unfinished transactions know it by; None is its pattern."""
    data_source: DataSourceConfig | None = None
    """Its database; ``memory:`` for none."""
    directory: str | None = None
    """In place of that, the folder of an SQLite database, and of its journal."""
    per_destination: bool = False
    """Whether each destination has a store of its own there, made when it is first used."""
    journal: JournalConfig | None = None
    """Below ``directory`` it has its own place there."""

    def __post_init__(self) -> None:
        check(self)
        if (self.data_source is None) == (self.directory is None):
            raise ConfigurationError(
                "a store is in a data_source or in a directory; give one of them", option="directory"
            )
        if self.per_destination and self.directory is None:
            raise ConfigurationError(
                "per_destination needs a directory, in which each destination gets a folder",
                option="per_destination",
            )
        if self.journal is not None and not self.journal.use_journal:
            raise ConfigurationError("use_journal is for a store by itself; leave the section journal out")
        try:
            _ = self.patterns
        except InvalidDestination as error:
            option = "queue" if self.topic is None else "topic"
            raise ConfigurationError(str(error), option=option) from error

    @property
    def patterns(self) -> tuple[Destination, ...]:
        """Nothing for what no other store has."""
        found = () if self.queue is None else (Destination.queue(self.queue),)
        return found if self.topic is None else (*found, Destination.topic(self.topic))

    @property
    def label(self) -> str:
        """What it is known by."""
        return self.name if self.name is not None else " ".join(map(str, self.patterns))


def check_routed(stores: Iterable[RoutedStoreConfig]) -> None:
    """Whether they can be told apart.

    :raises ConfigurationError: two of them have the same name, or the same place
    """
    labels: set[str] = set()
    places: set[str | None] = set()
    for number, store in enumerate(stores):
        option = f"stores[{number}]"
        if store.label in labels:
            what = f"the name {store.label!r}" if store.label else "neither queue nor topic"
            raise ConfigurationError(f"two stores have {what}; put their patterns into one", option=option)
        place = store.directory if store.data_source is None else store.data_source.url
        if place in places and place != "memory:":
            raise ConfigurationError(
                f"two stores are in {place}; put their patterns into one, with commas between",
                option=option,
            )
        labels.add(store.label)
        places.add(place)
