"""Which store has which destinations."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from jdbcstore.abc import Store
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, InvalidDestination, StoreClosed, StoreError
from jdbcstore.filtered.each import StorePerDestination
from jdbcstore.patterns import DestinationMap

_NAME_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The store of all destinations that a pattern matches; None is all that no other route has.

    ``name`` tells the stores of unfinished transactions apart after a restart; without one it is the
    pattern. A store that several routes lead to has the name of the first. With a
    :class:`StorePerDestination` each destination has its own.
    """

    store: Store | StorePerDestination
    destination: Destination | None = None
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name if self.name is not None else str(self.destination or "")


class Routes:
    """The routes of one filtered store. For any number of threads.

    :raises ConfigurationError: there is none, or two stores have one name
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self._by_destination = DestinationMap(
            (route.destination, route.store) for route in routes if route.destination is not None
        )
        self._others = next((route.store for route in routes if route.destination is None), None)
        if not routes:
            raise ConfigurationError("a filtered store needs a route; give one without a destination")
        self._lock = threading.Lock()
        self._closed = False
        self._labels: dict[int, str] = {}
        self._by_name: dict[bytes, Store] = {}
        self._each: dict[tuple[int, Destination], Store] = {}
        self.stores: tuple[Store, ...] = ()
        """Those that are open."""
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
            for one in several.values():
                for destination in one.found():
                    self._store_of_its_own(one, destination)
        except BaseException:
            self.close_each()
            raise

    def _add(self, store: Store, label: str) -> None:
        self._labels[id(store)] = label
        if self.name_of(store) in self._by_name:
            raise ConfigurationError("two stores of a filtered store have one name; give each route another")
        self._by_name[self.name_of(store)] = store
        self.stores = (*self.stores, store)

    def store_of(self, destination: Destination) -> Store:
        """The store of a destination, by the most specific pattern.

        :raises InvalidDestination: no route leads anywhere
        """
        store = self._leading(destination)
        if isinstance(store, StorePerDestination):
            return self._store_of_its_own(store, destination)
        if store is None:
            raise InvalidDestination(
                f"no store is there for {destination}; add a route for it, or one without a destination"
            )
        return store

    def leads_to(self, store: Store, destination: Destination) -> bool:
        """Whether a destination that a store has is that store's, and not another's or nobody's."""
        leading = self._leading(destination)
        if isinstance(leading, StorePerDestination):
            leading = self._each.get((id(leading), destination))
        return leading is store

    def _leading(self, destination: Destination) -> Store | StorePerDestination | None:
        return self._by_destination.find(destination) or self._others

    def _store_of_its_own(self, several: StorePerDestination, destination: Destination) -> Store:
        key = id(several), destination
        found = self._each.get(key)
        if found is not None:
            return found
        with self._lock:
            if self._closed:
                raise StoreClosed()
            if key not in self._each:
                store = several.open(destination)
                self._add(store, f"{self._labels[id(several)]} {destination}")
                self._each[key] = store
            return self._each[key]

    def close(self) -> None:
        """Open no more stores."""
        with self._lock:
            self._closed = True

    def close_each(self) -> None:
        """Close the stores that were opened here, for who cannot use them."""
        self.close()
        for store in self._each.values():
            with contextlib.suppress(StoreError):
                store.close()

    def name_of(self, store: Store) -> bytes:
        """The store's name within an XID."""
        label = self._labels[id(store)]
        return hashlib.blake2b(label.encode(), digest_size=_NAME_BYTES).digest()

    def named(self, name: bytes) -> Store | None:
        """The store of a name within an XID."""
        return self._by_name.get(name)
