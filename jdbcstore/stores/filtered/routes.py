"""Routes from destinations to stores: one store for several destinations, or one for each, in a folder."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jdbcstore.abc import Store
from jdbcstore.config.routed import folder_name
from jdbcstore.errors import ConfigurationError, InvalidDestination, StoreClosed, StoreError
from jdbcstore.message.destination import Destination, DestinationKind
from jdbcstore.message.patterns import DestinationMap
from jdbcstore.util.files import make_directory, replace_file, sync

log = logging.getLogger(__name__)

_NAME_BYTES = 8
_SHARED = "shared"
_KEPT = ("kept-*.log", "refused/*.message")
"""Files of a journal that must not be removed with a store."""
_NAME = "destination"
"""The file in each folder that names its destination."""
MOST = 64
"""Stores for single destinations in one folder."""


class StorePerDestination:
    """Opens the store of a destination in its folder, and finds existing ones after a restart.

    ``open_store`` is called with the folder; the caller of :meth:`open` closes the store. Nothing is created
    if this is ``read_only``. At most ``most`` stores are created, because clients choose the names.
    """

    def __init__(self, folder: Path, open_store: Callable[[Path], Store], *, read_only: bool = False) -> None:
        self._folder = folder
        self._open_store = open_store
        self._read_only = read_only
        self.most = MOST

    def found(self) -> Iterator[Destination]:
        """Yield the destinations that have a store of their own.

        :raises ConfigurationError: the name of one cannot be read from its folder
        """
        for path in sorted(self._folder.glob(f"*/{_NAME}")):
            try:
                yield Destination.parse(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, InvalidDestination) as error:
                raise ConfigurationError(
                    f"{path} does not say which destination's store is in its folder: {error}; correct it, or"
                    " move the folder away"
                ) from error

    def has(self, destination: Destination) -> bool:
        """Return whether it has a store of its own."""
        return (self._folder / folder_name(str(destination)) / _NAME).exists()

    @property
    def has_shared(self) -> bool:
        """Whether there is a shared store."""
        return (self._folder / _SHARED).is_dir()

    def open_shared(self) -> Store:
        """Return the shared store, for destinations without one of their own.

        :raises StoreError: it cannot be opened
        """
        return self._open_store(self._folder / _SHARED)

    def remove(self, destination: Destination) -> None:
        """Remove the folder of a store that is closed and empty, unless its journal has files to keep."""
        folder = self._folder / folder_name(str(destination))
        if any(path for pattern in _KEPT for path in folder.rglob(pattern)):
            return
        try:
            # First: a folder without it belongs to no destination, and is reused as an empty store.
            (folder / _NAME).unlink(missing_ok=True)
            sync(folder)
            shutil.rmtree(folder)
        except OSError as error:
            log.warning("the folder of %s cannot be removed: %s", destination, error)

    def open(self, destination: Destination) -> Store:
        """Return the store of a destination, created if it does not exist, unless this is ``read_only``.

        :raises ConfigurationError: its folder cannot be created
        :raises InvalidDestination: it does not exist, and this is ``read_only``
        :raises StoreError: it cannot be opened
        """
        folder = self._folder / folder_name(str(destination))
        if self._read_only and not (folder / _NAME).exists():
            raise InvalidDestination(f"{destination} has no store yet: nothing was ever stored there")
        try:
            _name_folder(folder, str(destination))
        except OSError as error:
            raise ConfigurationError(
                f"cannot create the folder {folder} for {destination}: {error.strerror}"
            ) from error
        return self._open_store(folder)


def _name_folder(folder: Path, name: str) -> None:
    """Store the name of the destination before anything else in its folder."""
    path = folder / _NAME
    if path.exists():
        return
    make_directory(folder)
    replace_file(path, name.encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The ``store`` for all destinations that the pattern ``destination`` matches; None matches all others.

    ``name`` identifies the store of an unfinished transaction after a restart; by default it is the pattern.
    A store with several routes has the name of the first. With a :class:`StorePerDestination` each
    destination has a store of its own.
    """

    store: Store | StorePerDestination
    destination: Destination | None = None
    name: str | None = None

    @property
    def label(self) -> str:
        """The name, by default the pattern."""
        return self.name if self.name is not None else str(self.destination or "")


def destination_named(name: str | Destination, kind: DestinationKind) -> Destination:
    """Return the destination to route; its store checks whether it is of this kind."""
    return name if isinstance(name, Destination) else Destination.named(name, kind)


class Routes:
    """The routes of one filtered store. Thread-safe.

    :raises ConfigurationError: there is no route, or two stores have the same name
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_destination = DestinationMap(
            (route.destination, route.store) for route in routes if route.destination is not None
        )
        self._others = next((route.store for route in routes if route.destination is None), None)
        if not routes:
            raise ConfigurationError("a filtered store needs a route; add one without a destination")
        self._lock = threading.Lock()
        self._closed = False
        self._labels: dict[int, str] = {}
        self.by_name: dict[bytes, Store] = {}
        """The stores by :meth:`name_of`."""
        self._each: dict[tuple[int, Destination], Store] = {}
        self._own: Counter[int] = Counter()
        """The number of stores for a single destination."""
        self._shared: dict[int, Store] = {}
        """The shared stores, for destinations above the limit."""
        self.stores: tuple[Store, ...] = ()
        several: dict[int, StorePerDestination] = {}
        for route in routes:
            if id(route.store) in self._labels:
                continue
            if isinstance(route.store, StorePerDestination):
                self._labels[id(route.store)] = route.label
                several[id(route.store)] = route.store
            else:
                self._add(route.store, route.label)
        try:
            for member in several.values():
                if member.has_shared:
                    self._open_shared(member)
                for destination in member.found():
                    self._store_of_its_own(member, destination)
                    if self._own[id(member)] > member.most:
                        self._remove_if_empty(member, destination)
        except BaseException:
            self.close_each()
            raise

    def _add(self, store: Store, label: str) -> None:
        self._labels[id(store)] = label
        if self.name_of(store) in self.by_name:
            raise ConfigurationError(
                "two stores of a filtered store have the same name; give each route another"
            )
        self.by_name[self.name_of(store)] = store
        self.stores = (*self.stores, store)

    def store_of(self, destination: Destination) -> Store:
        """Return the store of a destination, by the most specific pattern.

        :raises InvalidDestination: no route matches it
        """
        store = self._leading(destination)
        if isinstance(store, StorePerDestination):
            return self._store_of_its_own(store, destination)
        if store is None:
            raise InvalidDestination(
                f"no route matches {destination}; add one for it, or one without a destination"
            )
        return store

    def leads_to(self, store: Store, destination: Destination) -> bool:
        """Return whether the route of a destination found in a store leads to that store."""
        leading = self._leading(destination)
        if isinstance(leading, StorePerDestination):
            leading = self._each.get((id(leading), destination))
        return leading is store

    def _leading(self, destination: Destination) -> Store | StorePerDestination | None:
        return self._by_destination.find(destination) or self._others

    def _store_of_its_own(self, several: StorePerDestination, destination: Destination) -> Store:
        key = id(several), destination
        store = self._each.get(key)
        if store is not None:
            return store
        with self._lock:
            if self._closed:
                raise StoreClosed()
            if key not in self._each:
                self._each[key] = self._opened(several, destination)
            return self._each[key]

    def _opened(self, several: StorePerDestination, destination: Destination) -> Store:
        """Return the destination's own store, or the shared one above the limit."""
        if not several.has(destination) and self._own[id(several)] >= several.most:
            if id(several) not in self._shared:
                log.warning(
                    "%d destinations have a store of their own in one folder: others share one from now on;"
                    " delete destinations that are not needed, or add routes for them",
                    several.most,
                )
                self._open_shared(several)
            return self._shared[id(several)]
        store = several.open(destination)
        self._add(store, f"{self._labels[id(several)]} {destination}")
        self._own[id(several)] += 1
        return store

    def _open_shared(self, several: StorePerDestination) -> None:
        store = several.open_shared()
        self._shared[id(several)] = store
        self._add(store, f"{self._labels[id(several)]} (shared)")
        for destination in store.destinations():
            if not several.has(destination):
                self._each[id(several), destination] = store

    def has_its_own(self, destination: Destination) -> bool:
        several = self._leading(destination)
        if not isinstance(several, StorePerDestination):
            return False
        store = self._each.get((id(several), destination))
        return store is not None and store is not self._shared.get(id(several))

    def remove(self, destination: Destination) -> None:
        """Close and remove the store of a single destination, if it is empty.

        :raises StoreError: it cannot be read
        """
        several = self._leading(destination)
        if isinstance(several, StorePerDestination):
            with self._lock:
                if not self._closed:
                    self._remove_if_empty(several, destination)

    def _remove_if_empty(self, several: StorePerDestination, destination: Destination) -> None:
        key = id(several), destination
        store = self._each.get(key)
        if store is None or store is self._shared.get(id(several)) or not _is_empty(store):
            return
        # Closed first, so that nothing is added meanwhile: its other users get StoreClosed.
        self._forget(store)
        del self._each[key]
        self._own[id(several)] -= 1
        store.close()
        opened = several.open(destination)
        if _is_empty(opened):
            opened.close()
            several.remove(destination)
        else:
            self._add(opened, f"{self._labels[id(several)]} {destination}")
            self._own[id(several)] += 1
            self._each[key] = opened

    def _forget(self, store: Store) -> None:
        del self.by_name[self.name_of(store)]
        del self._labels[id(store)]
        self.stores = tuple(other for other in self.stores if other is not store)

    def close(self) -> None:
        """Open no more stores."""
        with self._lock:
            self._closed = True

    def close_each(self) -> None:
        """Close the stores that were opened here."""
        self.close()
        for store in {
            id(member): member for member in (*self._each.values(), *self._shared.values())
        }.values():
            with contextlib.suppress(StoreError):
                store.close()

    def name_of(self, store: Store) -> bytes:
        """Return the store's name within an XID."""
        label = self._labels[id(store)]
        return hashlib.blake2b(label.encode(), digest_size=_NAME_BYTES).digest()


def _is_empty(store: Store) -> bool:
    """Return whether it has neither messages nor prepared transactions."""
    return not (store.destinations() or store.xa.recover())
